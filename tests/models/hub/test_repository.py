"""`models push` and `pull`, and `spotchange.load("organisation/name")`, against a hub on loopback."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hub_server import TOKEN, Hub
from PIL import Image
from typer.testing import CliRunner

import spotchange
from spotchange.cli.main import app
from spotchange.errors import InputError, ModelError, SpotchangeError
from spotchange.models.hub.repository import hub_name, pull_model, push_model
from spotchange.models.vlm.checkpoint import fetched_adapter
from spotchange.models.weights.description import REMOTE_CODE

# The hub's own client, of its HTTP library.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
PAIR = (Image.new("RGB", (40, 30), "red"), Image.new("RGB", (40, 30), "blue"))


def test_there_and_back_and_loaded_by_name(hub: Hub, ours: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    address = push_model(ours, "mine/small", private=True)
    assert address.startswith(f"{hub.address}/mine/small/commit/")
    files = hub.repositories["mine/small"]["commits"][hub.repositories["mine/small"]["branches"]["main"]]
    assert {"config.json", "tokenizer.json", "README.md", "modeling_spotchange.py"} <= files.keys()
    assert json.loads(files["config.json"])["auto_map"]["AutoModel"] == "modeling_spotchange.SpotchangeModel"
    assert hub.repositories["mine/small"]["private"]

    captioner = spotchange.load("mine/small", device="cpu")
    here = spotchange.load(ours, device="cpu")
    assert captioner.caption(*PAIR).caption == here.caption(*PAIR).caption
    assert captioner.name == "mine/small"  # and not what its folder in the cache is called
    assert not list(pull_model("mine/small").glob("*.py"))  # code is never fetched
    assert TOKEN not in caplog.text


def test_a_revision_is_fetched_as_it_was(hub: Hub, ours: Path, tmp_path: Path) -> None:
    push_model(ours, "mine/small")
    first = hub.repositories["mine/small"]["branches"]["main"]
    (ours / "recipe.yaml").write_text("name: second\n")
    push_model(ours, "mine/small")
    push_model(ours, "mine/small", revision="try")
    assert "second" in (pull_model("mine/small") / "recipe.yaml").read_text()
    assert "second" not in (pull_model("mine/small", revision=first) / "recipe.yaml").read_text()
    assert spotchange.load("mine/small", revision=first, device="cpu").name
    assert spotchange.load(f"mine/small@{first}", device="cpu").name
    with pytest.raises(ModelError, match="no revision gone"):
        spotchange.load("mine/small", revision="gone")
    with pytest.raises(InputError, match="models on the hub"):
        spotchange.load(ours, revision=first)


def test_offline_what_was_fetched_still_loads(hub: Hub, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push_model(ours, "mine/small")
    there = pull_model("mine/small")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert pull_model("mine/small") == there
    with pytest.raises(ModelError, match="cannot be reached"):
        pull_model("mine/other")
    with pytest.raises(ModelError, match="cannot be reached"):
        push_model(ours, "mine/small")


@pytest.mark.parametrize(
    ("token", "name", "said"),
    [(TOKEN, "mine/nothing", "no model mine/nothing"), (None, "mine/nothing", "no model mine/nothing")],
)
def test_a_name_that_is_not_there(
    hub: Hub, token: str | None, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if token is None:
        monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ModelError, match=said) as caught:
        pull_model(name)
    assert "hf auth login" in str(caught.value.hint)
    assert "\n" not in caught.value.message


def test_no_permission_and_no_token_are_one_line(hub: Hub, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="does not let you") as caught:
        push_model(ours, "theirs/small")
    assert TOKEN not in caught.value.message
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ModelError, match=r"not for you|does not let you") as caught:
        push_model(ours, "mine/small")
    assert "hf_wrong" not in caught.value.message
    assert hub.repositories == {}


def test_a_damaged_or_foreign_folder_is_not_pushed(hub: Hub, ours: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no name on the hub"):
        push_model(ours, "small")
    weights = ours / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(ModelError, match="damaged"):
        push_model(ours, "mine/small")
    with pytest.raises(SpotchangeError):
        push_model(tmp_path, "mine/small")
    assert hub.repositories == {}


def test_an_adapter_is_not_pushed_as_a_model_of_ours(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is an adapter of a vision-language model"):
        push_model(tmp_path, "mine/adapter")
    assert not hub.repositories


def test_the_card_has_the_figures_that_were_measured(hub: Hub, ours: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    system = {"name": "ours", "corpus": {"CIDEr-D": 1.25}, "beyond": {"fact_accuracy": 0.5}}
    results.write_text(json.dumps({"data_set": "scenes", "split": "test", "pairs": 1200, "systems": [system]}))
    push_model(ours, "mine/small", results=results)
    head = hub.repositories["mine/small"]["branches"]["main"]
    card = hub.repositories["mine/small"]["commits"][head]["README.md"].decode()
    assert card.startswith("---\nlibrary_name: spotchange\n")
    assert "| scenes test (1,200 pairs) | CIDEr-D | 125.0 |" in card
    assert "type: fact_accuracy" in card
    results.write_text("{}")
    with pytest.raises(InputError, match="no evaluation"):
        push_model(ours, "mine/small", results=results)


def test_the_commands(hub: Hub, ours: Path, tmp_path: Path) -> None:
    pushed = CliRunner().invoke(app, ["models", "push", str(ours), "mine/small", "--json"])
    assert pushed.exit_code == 0, pushed.output
    assert json.loads(pushed.stdout)["commit"].startswith(hub.address)
    hub.commit("mine/small", "main", {"modeling_spotchange.py": b"raise SystemExit"})
    out = tmp_path / "theirs"
    pulled = CliRunner().invoke(app, ["models", "pull", "mine/small", "--out", str(out)])
    assert pulled.exit_code == 0, pulled.output
    assert pulled.stdout.strip() == str(out)
    assert (out / "model.safetensors").read_bytes() == (ours / "model.safetensors").read_bytes()
    assert "None were measured" in (out / "README.md").read_text()
    assert (out / "modeling_spotchange.py").read_text() == REMOTE_CODE  # which config.json names, but not the hub's
    again = CliRunner().invoke(app, ["models", "pull", "mine/small", "--out", str(out)])
    assert isinstance(again.exception, InputError)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("org/name", ("org/name", None)),
        ("org/name@v1.0", ("org/name", "v1.0")),
        ("org/name/more", None),
        ("./org/name", None),
        ("/org/name", None),
        ("../name", None),
        ("name", None),
        ("here/typo", None),
    ],
)
def test_what_is_a_name_on_the_hub(
    text: str, meant: tuple[str, str | None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()  # whoever mistypes a folder's name asks no hub about it
    assert hub_name(text) == meant


def test_an_adapter_is_told_from_a_checkpoint(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the hub is, its library reads when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        hub.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    adapter = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x", "prompt.yaml": b"", "code.py": b""}
    for name, files in {"mine/adapter": adapter, "mine/model": {"config.json": b"{}"}}.items():
        hub.repositories[name] = {"private": False, "branches": {}, "commits": {}}
        commit = hub.commit(name, "main", files)
        if name == "mine/adapter":
            found = fetched_adapter(name)
            assert found is not None
            assert found.name == commit
            assert {path.name for path in found.iterdir()} == set(adapter) - {"code.py"}
    assert fetched_adapter("mine/model") is None
    assert fetched_adapter("mine/nothing") is None
