"""Every verb with a vision-language model behind it: a scripted server on loopback, asked over HTTP."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from scripted_server import completion
from spotchange.answering.vlm.answerer import VlmAnswerer
from spotchange.cli.main import app
from spotchange.data import Row, write_rows
from spotchange.errors import InputError, ModelError, SpotchangeError

GOOD = json.dumps({"changed": True, "caption": "the red mug is gone"})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def draw(path: Path, color: str, size: tuple[int, int] = (24, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Five images that differ; those of "c" are 25 wide."""
    for number, name in enumerate("abcde"):
        size = (25 if name == "c" else 24, 16 + number)
        draw(tmp_path / "before" / f"{name}.png", "red", size)
        draw(tmp_path / "after" / f"{name}.png", "blue", size)
    return tmp_path / "before", tmp_path / "after"


def answers(body: dict[str, Any], tries: int) -> Any:
    """Nonsense about the wide pair, a server's fault at every first try."""
    import base64
    import io

    url = body["messages"][-1]["content"][0]["image_url"]["url"]
    width = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).width
    if tries == 1:
        return (503, "busy", {"retry-after": "0"})
    return completion("I cannot say" if width == 25 else GOOD)


def test_a_batch_has_a_line_for_every_pair_and_the_next_run_asks_only_what_failed(
    serve: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    server = serve(answers)
    out = tmp_path / "out.jsonl"
    done = run("caption", *folders, "--model", server.model, "--out", out)
    assert isinstance(done.exception, InputError)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["a.png", "b.png", "c.png", "d.png", "e.png"]
    assert ["error" in line for line in lines] == [False, False, True, False, False]
    assert "not JSON" in lines[2]["error"]
    assert lines[0]["caption"] == "the red mug is gone"
    assert "tiny: 5 questions asked, 0 answered before; 1 unusable; 3,500 tokens in, 60 out" in done.stderr
    asked = len(server.bodies)
    run("caption", *folders, "--model", server.model, "--out", out)
    assert len(server.bodies) == asked + 1  # the one pair again
    # Another file: all but one come from the cache.
    run("caption", *folders, "--model", server.model, "--out", tmp_path / "other.jsonl")
    assert len(server.bodies) == asked + 2


def test_lines_of_another_prompt_file_are_not_reused(serve: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    import yaml

    from spotchange.config.prompts import PROMPTS

    server = serve(lambda body, tries: completion(GOOD))
    words = yaml.safe_load((PROMPTS / "sentence.yaml").read_text())
    mine, out = tmp_path / "mine.yaml", tmp_path / "out.jsonl"
    for times, question in ((5, "What changed?"), (10, "What is different?")):
        mine.write_text(yaml.safe_dump(words | {"user": question}))
        done = run("caption", *folders, "--model", server.model, "--model-option", f"prompt={mine}", "--out", out)
        assert done.exit_code == 0, done.output
        assert len(server.bodies) == times


def test_lines_are_reused_however_the_server_is_reached(serve: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    for option in ("concurrency=2", "timeout=30", "prompt_price=3"):
        options = ["--model-option", option, "--model-option", "no_cache=true"]
        assert (
            run("caption", *folders, "--model", server.model, *options, "--out", tmp_path / "out.jsonl").exit_code == 0
        )
    assert len(server.bodies) == 5


def test_flags_are_options(serve: Any, tmp_path: Path) -> None:
    many = {"changed": True, "caption": "two things", "differences": ["the mug is gone", "the lamp is on"]}
    server = serve(lambda body, tries: completion(json.dumps(many)))
    pair = draw(tmp_path / "b.png", "red"), draw(tmp_path / "a.png", "blue")
    flags = ["--hints", "--differences", "many", "--max-new-tokens", 77]
    done = run("caption", *pair, "--model", server.model, *flags)
    assert done.stdout.splitlines() == ["two things", "- the mug is gone", "- the lamp is on"]
    (body,) = server.bodies
    assert body["max_tokens"] == 77
    assert "A pixel comparison reports" in body["messages"][-1]["content"][-1]["text"]
    assert "List every difference" in body["messages"][-1]["content"][-1]["text"]
    assert isinstance(run("caption", *pair, "--hints").exception, InputError)  # our own models take none


def test_what_was_spent_is_told_also_where_there_is_no_answer(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion("I cannot say"))
    pair = draw(tmp_path / "b.png", "red"), draw(tmp_path / "a.png", "blue")
    done = run("caption", *pair, "--model", server.model, "--model-option", "prompt_price=2")
    assert "not JSON" in str(done.exception)
    assert "; 1 unusable; 700 tokens in, 12 out; cost 0.0014" in done.stderr


def test_compare_keeps_its_verdict_and_its_words_where_the_model_has_none(
    serve: Any, folders: tuple[Path, Path]
) -> None:
    server = serve(answers)
    done = run("compare", *folders, "--model", server.model, "--json")
    assert done.exit_code == 0, done.output
    files = {each["id"]: each for each in json.loads(done.stdout)["files"]}
    assert {each["status"] for each in files.values()} == {"changed"}
    assert [files[f"{name}.png"]["source"] for name in "abcde"] == ["vlm", "vlm", "pixels", "vlm", "vlm"]
    assert files["a.png"]["caption"] == "the red mug is gone"
    assert any("did not word this" in each for each in files["c.png"]["warnings"])
    assert "5 questions asked" in done.stderr


def test_compare_stands_by_a_change_that_the_model_denies(serve: Any, folders: tuple[Path, Path]) -> None:
    denial = json.dumps({"changed": False, "caption": "nothing changed"})
    model = serve(lambda body, tries: completion(denial)).model
    done = run("compare", *folders, "--model", model, "--fail-on-change")
    assert done.exit_code == 1
    assert "nothing changed" not in done.stdout
    (told, *_) = json.loads(run("compare", *folders, "--model", model, "--json").stdout)["files"]
    assert (told["source"], told["changed"]) == ("pixels", True)
    assert any("the model saw no change here" in each for each in told["warnings"])


def test_compare_keeps_its_words_where_sentence_and_score_of_the_model_disagree(
    serve: Any, folders: tuple[Path, Path]
) -> None:
    denial = completion(json.dumps({"changed": False, "caption": "nothing changed"}))
    sure = {"content": [{"token": "yes", "top_logprobs": [{"token": "yes", "logprob": -0.01}]}]}
    server = serve(lambda body, tries: completion("yes", logprobs=sure) if "logprobs" in body else denial)
    done = run("compare", *folders, "--model", server.model, "--model-option", "score=true", "--json")
    told = json.loads(done.stdout)["files"][0]
    assert told["changed"]
    assert "nothing changed" not in told["caption"]
    assert any("disagree" in each for each in told["warnings"])


@pytest.mark.parametrize(("concurrency", "at_once"), [(3, 3), (20, 20)])
def test_compare_asks_about_as_many_pairs_at_once_as_concurrency_says(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int, at_once: int
) -> None:
    """Every request waits until there are so many; images of no more pairs than that, or sixteen, are decoded."""
    all_there = threading.Barrier(at_once, timeout=120)
    server = serve(lambda body, tries: all_there.wait() * 0 or completion(GOOD))
    shown: list[int] = []
    answer = VlmAnswerer.answer

    def noted(self: VlmAnswerer, pairs: Any, options: Any) -> Any:
        shown.append(len(pairs))
        return answer(self, pairs, options)

    monkeypatch.setattr(VlmAnswerer, "answer", noted)
    for number in range(2 * at_once):
        draw(tmp_path / "before" / f"{number}.png", "red", (24, 16 + number))
        draw(tmp_path / "after" / f"{number}.png", "blue", (24, 16 + number))
    asked = [f"concurrency={concurrency}", "timeout=300", "no_cache=true"]
    options = [each for one in asked for each in ("--model-option", one)]
    done = run("compare", tmp_path / "before", tmp_path / "after", "--model", server.model, "--workers", "1", *options)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("the red mug is gone") == 2 * at_once
    assert server.most_at_once == at_once
    assert max(shown) <= max(16, concurrency)


def test_compare_words_nothing_that_it_leaves_out(serve: Any, tmp_path: Path) -> None:
    import base64
    import io

    server = serve(lambda body, tries: completion(GOOD))
    draw(tmp_path / "before" / "a.png", "red")
    with Image.open(draw(tmp_path / "after" / "a.png", "red")) as after:
        after.paste("blue", (0, 0, 8, 8))
        after.paste("green", (16, 8, 24, 16))
        after.save(tmp_path / "after" / "a.png")
    done = run("compare", tmp_path / "before", tmp_path / "after", "--model", server.model, "--ignore", "0,0,8,8")
    assert "the red mug is gone" in done.stdout
    url = server.bodies[0]["messages"][-1]["content"][1]["image_url"]["url"]
    sent = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert (sent.getpixel((4, 4)), sent.getpixel((20, 12))) == ((255, 0, 0), (0, 128, 0))


def test_compare_asks_for_every_difference_and_shows_them(
    serve: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    many = {"changed": True, "caption": "two things", "differences": ["the mug is gone", "the lamp is on"]}
    model = serve(lambda body, tries: completion(json.dumps(many))).model
    done = run("compare", *folders, "--model", model, "--differences", "many", "--json")
    assert [each["differences"] for each in json.loads(done.stdout)["files"]] == [many["differences"]] * 5
    page, summary = tmp_path / "report.html", tmp_path / "summary.md"
    shown = run("compare", *folders, "--model", model, "--differences", "many", "--report", page, "--markdown", summary)
    for text in (shown.stdout, page.read_text(), summary.read_text()):
        assert text.count("the lamp is on") == 5


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """Twelve validation pairs, every second one changed; widths name them."""
    folder = tmp_path / "set" / "val"
    rows = []
    for number in range(12):
        changed = number % 2 == 0
        draw(folder / f"{number}b.png", "red", (20 + number, 16))
        draw(folder / f"{number}a.png", "blue" if changed else "#f80000", (20 + number, 16))
        rows.append(
            Row(
                id=str(number),
                before_file_name=f"{number}b.png",
                after_file_name=f"{number}a.png",
                captions=("the red mug is gone" if changed else "there is no change",),
                change_type="drop" if changed else "none",
            )
        )
    write_rows(folder / "metadata.jsonl", rows)
    return folder.parent


def number_of(body: dict[str, Any]) -> int:
    import base64
    import io

    url = body["messages"][-1]["content"][0]["image_url"]["url"]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).width - 20


def truthful(body: dict[str, Any], tries: int) -> Any:
    number = number_of(body)
    changed = number % 2 == 0
    if body.get("logprobs"):
        # Likes to say yes: 0.9 where something changed, 0.7 where nothing did, the other way round once.
        likely = 0.9 if changed != (number == 11) else 0.7
        top = [{"token": word, "logprob": float(np.log(p))} for word, p in (("yes", likely), ("no", 1 - likely))]
        return completion("yes", logprobs={"content": [{"top_logprobs": top}]})
    if number == 3:
        return completion("no JSON")
    return completion(json.dumps({"changed": changed, "caption": "the red mug is gone" if changed else "no change"}))


def test_evaluate_counts_a_pair_without_an_answer_as_wrong(serve: Any, data_set: Path, tmp_path: Path) -> None:
    server = serve(truthful)
    done = run("evaluate", server.model, data_set, "--no-meteor", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (system,) = told["systems"]
    assert system["beyond"]["change accuracy"] == pytest.approx(11 / 12)
    assert system["items"]["3"]["error"].startswith("the model's reply is not JSON")
    assert system["items"]["3"]["changed"] is None
    assert system["confusion"]["none"] == {"none": 5, "no answer": 1}
    assert any("1 of 12 pairs have no usable answer" in note for note in told["notes"])
    assert "12 questions asked" in done.stderr
    host = server.model.removeprefix("openai:http://").replace("/v1", "")
    assert f"|decoding:{host}+max200+t0+prompt.sentence.v1|" in system["signature"]  # neither beams nor words
    # The same from the file that a batch writes, and `score` leaves the line out only where it is told to.
    out = tmp_path / "out.jsonl"
    run("caption", "--pairs", data_set / "val" / "metadata.jsonl", "--model", server.model, "--out", out)
    again = run("evaluate", out, data_set, "--no-meteor", "--json")
    assert json.loads(again.stdout)["systems"][0]["beyond"] == system["beyond"]
    references = data_set / "val" / "metadata.jsonl"
    assert "carries an error" in str(run("score", out, references, "--no-meteor").exception)
    left = run("score", out, references, "--no-meteor", "--allow-missing")
    assert "1 ids carry an error" in left.stderr


def test_the_change_score_is_calibrated_by_the_same_command(serve: Any, data_set: Path, tmp_path: Path) -> None:
    server = serve(truthful)
    fitted = tmp_path / "calibration.json"
    done = run("models", "calibrate", server.model, data_set, "--out", fitted, "--json")
    assert done.exit_code == 0, done.output
    values = json.loads(fitted.read_text())
    # One of six is the other way round on one side only: scores are 6 of 7 right above, 5 of 5 below.
    assert values["reports"]["set/val"]["change_accuracy"] == pytest.approx(11 / 12)
    assert values["reports"]["set/val"]["expected_calibration_error"] < 0.1
    assert 0.05 <= values["threshold"] <= 0.95
    options = ["--model-option", f"calibration={fitted}"]
    unchanged = data_set / "val" / "1b.png", data_set / "val" / "1a.png"
    plain = json.loads(
        run("caption", *unchanged, "--model", server.model, "--model-option", "score=true", "--json").stdout
    )
    told = json.loads(run("caption", *unchanged, "--model", server.model, *options, "--json").stdout)
    assert (plain["change_score"], plain["changed"]) == (0.7, True)  # what the model would have said
    assert told["change_score"] < 0.2
    assert not told["changed"]
    other = [*options, "--model-option", "prompt=clevr-change"]
    refused = run("caption", *unchanged, "--model", server.model, *other)
    assert isinstance(refused.exception, ModelError)
    assert "was fitted for" in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["models", "calibrate", "openai:http://127.0.0.1:1/v1#m", "SET"], "--out is needed"),
        (["models", "calibrate", "bundled", "SET", "--out", "x.json"], "are for vlm: and openai:"),
        (["models", "calibrate", "bundled", "SET"], "bundled is no folder of yours"),
        (["caption", "a.png", "b.png", "--model", "vlm:nowhere/nothing"], "cannot load"),
    ],
)
def test_bad_input_is_one_line(
    data_set: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    done = run(*(data_set if each == "SET" else each for each in arguments))
    assert isinstance(done.exception, SpotchangeError), done.output
    assert words in str(done.exception)


def test_a_server_that_tells_no_probabilities_cannot_be_calibrated(serve: Any, data_set: Path, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion("yes"))
    done = run("models", "calibrate", server.model, data_set, "--out", tmp_path / "c.json")
    assert "tells no probabilities" in str(done.exception)
    assert not (tmp_path / "c.json").exists()
