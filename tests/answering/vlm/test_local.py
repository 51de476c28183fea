"""`vlm:` models: tiny checkpoints of eight families, built here, saved, loaded by their folders and asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_families import FAMILIES, REPLY, language_model, llava, teach

from spotchange.answering import ImagePair
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.config.prompts import load_prompt
from spotchange.data import Row
from spotchange.errors import ModelError, ReplyError
from spotchange.evaluation.judging.judge import Judge
from spotchange.evaluation.predictions import Output
from spotchange.models.vlm.checkpoint import load_checkpoint

QUIET = {"no_cache": "true", "max_new_tokens": "4"}


def pairs() -> list[ImagePair]:
    red, green, blue = (
        Image.new("RGB", size, color) for size, color in (((40, 30), "red"), ((56, 56), "green"), ((28, 40), "blue"))
    )
    return [ImagePair.of(red, blue), ImagePair.of(green, blue), ImagePair.of(blue, red)]


def build(name: str, folder: Path, **options: str) -> Any:
    import torch

    torch.manual_seed(0)
    FAMILIES[name](folder)
    taught = build_vlm(f"vlm:{folder}", QUIET, device="cpu")
    questions = [
        taught._question(pair, answer)  # type: ignore[arg-type]
        for pair, answer in zip(pairs(), [None] * 3, strict=True)
    ]
    teach(taught.asker.model, questions, folder)  # type: ignore[arg-type]
    return build_vlm(f"vlm:{folder}", QUIET | options, device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vlm") / "tiny-llava"
    build("llava", path)
    return path


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_answers_every_pair_and_scores_it(name: str, tmp_path: Path) -> None:
    answerer = build(name, tmp_path / name, batch_size="2", score="true")
    answers = answerer.answer(pairs(), CaptionOptions(threshold=0.0))
    assert [type(each) for each in answers] == [Answer] * 3
    for answer in answers:
        assert (answer.result.caption, answer.result.changed) == ("the mug is gone", True)
        assert 0 < answer.result.change_score < 1
        assert answer.result.regions
    assert (answerer.usage.asked, answerer.usage.failed) == (6, 0)
    assert answerer.usage.reply_tokens == 3 * 2 + 3  # the reply, its end; yes or no
    assert answerer.usage.prompt_tokens > 6 * 300


def test_torchvision_is_not_needed_and_a_hub_model_is_pinned_to_its_commit(folder: Path, tmp_path: Path) -> None:
    """In a fresh interpreter, because torchvision is hidden and the hub's cache another: a branch names a commit."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(folder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    FAMILIES["qwen2_5_vl"](tmp_path / "qwen")
    program = f"""if True:
        import sys
        sys.modules["torchvision"] = None
        from spotchange.answering.vlm.build import build_vlm
        build_vlm("vlm:{tmp_path / "qwen"}", {{"no_cache": "true"}}, device="cpu")
        print(build_vlm("vlm:someone/tiny", {{"no_cache": "true"}}, device="cpu").signature)
        assert sys.modules["torchvision"] is None
    """
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("someone/tiny@0123456789ab+")


def test_nonsense_is_an_error_row(tmp_path: Path) -> None:
    llava(tmp_path)  # not taught
    answerer = build_vlm(f"vlm:{tmp_path}", QUIET | {"batch_size": "2"}, device="cpu")
    outcomes = answerer.answer(pairs(), CaptionOptions())
    assert [type(each) for each in outcomes] == [ReplyError] * 3
    assert "cut off" in outcomes[0].message  # type: ignore[union-attr]
    assert answerer.usage.reply_tokens == 3 * 4


def test_a_pair_that_breaks_a_batch_costs_no_other_its_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = build_vlm(f"vlm:{folder}", QUIET | {"batch_size": "3"}, device="cpu")
    model: Any = answerer.asker.model
    generate = model._generate

    def fails_on_green(questions: Any) -> Any:
        if any(question.turn.images[0].size == (56, 56) for question in questions):
            raise RuntimeError("out of memory")
        return generate(questions)

    monkeypatch.setattr(model, "_generate", fails_on_green)
    outcomes = answerer.answer(pairs(), CaptionOptions())
    assert [type(each) for each in outcomes] == [Answer, ReplyError, Answer]
    assert "out of memory" in outcomes[1].message  # type: ignore[union-attr]


def test_a_folder_trained_further_has_another_signature(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    same = build_vlm(f"vlm:{copy}", QUIET, device="cpu").signature
    assert same == build_vlm(f"vlm:{folder}", QUIET, device="cpu").signature
    llava(copy)
    assert build_vlm(f"vlm:{copy}", QUIET, device="cpu").signature != same


def test_a_template_without_a_system_turn(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "strict"
    shutil.copytree(folder, copy)
    template = copy / "chat_template.jinja"
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
    template.write_text(refusal + template.read_text())
    answerer = build_vlm(f"vlm:{copy}", QUIET, device="cpu")
    assert all("no system" not in getattr(each, "message", "") for each in answerer.answer(pairs(), CaptionOptions()))
    assert answerer.usage.failed == 0


def test_a_folder_that_says_what_it_was_trained_to_be_asked_is_asked_that(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "trained"
    shutil.copytree(folder, copy)
    (copy / "prompt.yaml").write_text(load_prompt("plain").to_yaml())
    answerer = build_vlm(f"vlm:{copy}", QUIET, device="cpu")
    assert answerer.prompt.signature.startswith("plain.v1@")
    assert build_vlm(f"vlm:{copy}", QUIET | {"prompt": "sentence"}, device="cpu").prompt.signature == "sentence.v1"


def test_a_local_model_reads_text_alone_as_a_judge(folder: Path) -> None:
    judge = Judge.load(f"vlm:{folder}", {"no_cache": "true", "max_new_tokens": "4"}, device="cpu")
    row = Row(id="a", before_file_name="b", after_file_name="a", captions=("x",), differences=("the mug is gone",))
    (outcome,) = judge.match([row], [Output(caption="the mug is gone", changed=True, change_type=None)])
    assert isinstance(outcome, ReplyError)  # it was taught another reply
    assert "failed on this pair" not in outcome.message
    assert judge.usage.prompt_tokens > 500


def test_a_language_model_may_judge_but_sees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language_model(tmp_path / "words")
    judge = Judge.load(f"vlm:{tmp_path / 'words'}", {"no_cache": "true", "max_new_tokens": "4"}, device="cpu")
    row = Row(id="a", before_file_name="b", after_file_name="a", captions=("x",), differences=("the mug is gone",))
    asked: list[list[int]] = []
    generate = judge._asker.model._model.generate  # type: ignore[attr-defined]
    monkeypatch.setattr(
        judge._asker.model._model,  # type: ignore[attr-defined]
        "generate",
        lambda **given: asked.append(given["input_ids"][0].tolist()) or generate(**given),
    )
    (outcome,) = judge.match([row], [Output(caption="the mug is gone", changed=True, change_type=None)])
    assert isinstance(outcome, ReplyError)  # nobody taught it anything
    assert "failed on this pair" not in outcome.message
    assert asked[0].count(1) == 1  # it starts once, though template and tokenizer both would write it
    with pytest.raises(ModelError, match="words is a language model, which sees no images"):
        build_vlm(f"vlm:{tmp_path / 'words'}", QUIET, device="cpu")


@pytest.mark.parametrize("named", ["as the model", "as an option"])
def test_an_adapter_on_the_hub_is_fetched_with_its_prompt(
    named: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the hub's cache, as `hf_hub_download` leaves it: the commit stands in the signature."""
    import torch
    from peft import LoraConfig, get_peft_model

    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "hub" / "models--someone--adapter"
    base = load_checkpoint(str(folder)).model
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"]))
    torch.nn.init.normal_(
        adapted.base_model.model.model.language_model.layers[0].self_attn.q_proj.lora_B["default"].weight
    )
    adapted.peft_config["default"].base_model_name_or_path = str(folder)
    adapted.save_pretrained(kept / "snapshots" / commit)
    (kept / "snapshots" / commit / "prompt.yaml").write_text(load_prompt("plain").to_yaml())
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model, options = (
        ("vlm:someone/adapter", {}) if named == "as the model" else (f"vlm:{folder}", {"adapter": "someone/adapter"})
    )
    answerer = build_vlm(model, QUIET | options, device="cpu")
    assert answerer.prompt.signature.startswith("plain.v1@")
    assert "+someone/adapter@0123456789ab+" in answerer.signature
    assert hasattr(answerer.asker.model._model, "peft_config")  # type: ignore[attr-defined]
    if named == "as an option":
        with pytest.raises(ModelError, match="someone/nothing is no adapter"):
            build_vlm(model, QUIET | {"adapter": "someone/nothing"}, device="cpu")


def test_code_of_a_checkpoint_does_not_run_unless_asked(folder: Path, tmp_path: Path) -> None:
    copy, proof = tmp_path / "remote", tmp_path / "ran"
    shutil.copytree(folder, copy)
    (copy / "mine.py").write_text(f"open({str(proof)!r}, 'w').write('ran')\nclass Mine: ...\n")
    config = json.loads((copy / "config.json").read_text())
    mine = {"AutoConfig": "mine.Mine", "AutoModelForImageTextToText": "mine.Mine"}
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "mine", "auto_map": mine}))
    with pytest.raises(ModelError, match="contains custom code"):
        build_vlm(f"vlm:{copy}", QUIET, device="cpu")
    assert not proof.exists()


def test_other_weights_than_safetensors_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="no safetensors"):
        build_vlm(f"vlm:{tmp_path}", {"no_cache": "true"}, device="cpu")


def test_the_home_folder_is_found_behind_a_colon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert build_vlm(f"vlm:~/{folder.name}", QUIET, device="cpu").card.name == folder.name


def test_a_revision_may_follow_the_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(folder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "v1").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    answerer = build_vlm("vlm:someone/tiny@v1", QUIET, device="cpu")
    assert answerer.card.name == "someone/tiny"
    assert answerer.signature.startswith("someone/tiny@0123456789ab+")


def test_a_score_needs_the_scores_of_one_word_only(folder: Path) -> None:
    """Those of every token of two images are gigabytes for a model with a large vocabulary."""
    answerer = build_vlm(f"vlm:{folder}", QUIET | {"batch_size": "3"}, device="cpu")
    lengths: list[int] = []
    output = answerer.asker.model._model.get_output_embeddings()  # type: ignore[attr-defined]
    output.register_forward_hook(lambda _, given, made: lengths.append(made.shape[1]))
    together = answerer.yes_probabilities(pairs())
    assert lengths == [1]
    assert together == pytest.approx([answerer.yes_probabilities([each])[0] for each in pairs()], abs=1e-5)


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(ModelError, match="no model folder at /nowhere/model"):
        build_vlm("vlm:/nowhere/model", {"no_cache": "true"}, device="cpu")


def test_a_folder_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cannot load"):
        build_vlm(f"vlm:{tmp_path}", {"no_cache": "true"}, device="cpu")
    with pytest.raises(ModelError, match="is a folder, which has no revision v1"):
        build_vlm(f"vlm:{tmp_path}", {"no_cache": "true", "revision": "v1"}, device="cpu")


def test_the_reply_is_one_token() -> None:
    """What the helper counts on."""
    from tiny_families import tokenizer

    assert len(tokenizer(["<image>"]).encode(REPLY, add_special_tokens=False)) == 1
