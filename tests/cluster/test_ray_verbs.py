"""compare, evaluate, generate and data features on a Ray cluster: what they write is what one machine writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from scripted_server import completion
from spotchange.answering import LoadOptions
from spotchange.cli.main import app
from spotchange.comparison import ComparisonOptions
from spotchange.regression.on_cluster import CompareWork
from spotchange.regression.one_pair import Job, Outputs
from spotchange.regression.wording import Wording

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster"), pytest.mark.filterwarnings("ignore")]
TINY: dict[str, Any] = {
    "name": "tiny-pcl",
    "seed": 1,
    "model": {
        "preset": "idc-pcl-resnet50",
        "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 96]},
        "text": {"width": 32, "context": 24},
        "captioner": {"width": 32, "heads": 2, "decoder_layers": 1, "dropout": 0.1},
        "heads": {"pretraining": True, "classes": 48},
        "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
    },
    "data": {"kind": "stream", "quality": "fast"},
    "stage": {"objective": {"kind": "pcl-pretrain"}, "steps": 6, "pairs_per_step": 4, "max_words": 24},
}
RAY = ("--engine", "ray", "--workers", "1")
TWO = ("--engine", "ray", "--workers", "2")  # where results may come out of order, and are large


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert (done.exit_code, done.exception) == (0, None), done.stderr
    return done.stdout


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without(values: Any, *names: str) -> Any:
    """JSON without what measures a clock."""
    if isinstance(values, dict):
        return {name: without(value, *names) for name, value in values.items() if name not in names}
    return [without(each, *names) for each in values] if isinstance(values, list) else values


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six scenes made on one machine."""
    folder = tmp_path_factory.mktemp("plain")
    run(
        "generate", "--out", folder, "--pairs", 12, "--size", "48x32", "--quality", "fast", "--masks", "--device", "cpu"
    )
    return folder


def test_generate_is_byte_identical(data_set: Path, tmp_path: Path) -> None:
    rest = ("--size", "48x32", "--quality", "fast", "--masks", "--device", "cpu")
    run("generate", "--out", tmp_path, "--pairs", 4, *rest)  # begun on one machine, and gone on with elsewhere
    run("generate", "--out", tmp_path, "--pairs", 12, *rest, *TWO)
    assert files_of(tmp_path) == files_of(data_set)


def test_evaluate_gives_the_same_numbers(data_set: Path) -> None:
    rest = ("evaluate", "pixels", data_set, "--split", "train", "--no-meteor", "--json", "--batch-size", "2")
    assert json.loads(run(*rest, *RAY)) == json.loads(run(*rest))


def test_features_are_byte_identical(tmp_path: Path, data_set: Path) -> None:
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump(TINY))
    rest = ("data", "features", recipe, "--device", "cpu")
    for name, source, engine in (("scenes", ("--scenes", 18), TWO), ("data", ("--data", data_set), RAY)):
        run(*rest, *source, "--out", tmp_path / f"{name}-here")
        run(*rest, *source, "--out", tmp_path / f"{name}-ray", *engine)
        assert files_of(tmp_path / f"{name}-ray") == files_of(tmp_path / f"{name}-here")


def test_compare_says_the_same_and_its_workers_ask_the_model(serve: Any, tmp_path: Path) -> None:
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        for number in range(12):
            image = Image.new("RGB", (40, 30), "white")
            left = 3 + number * (side == "after")
            ImageDraw.Draw(image).rectangle((left, 3, left + 8, 12), fill="navy")
            image.save(tmp_path / side / f"{number:02d}.png")
    (tmp_path / "after" / "05.png").write_bytes(b"no picture")
    server = serve(lambda body, tries: completion(json.dumps({"changed": True, "caption": "the mug is gone"})))
    words = ("--model", server.model, "--model-option", "no_cache=true")
    rest = ("compare", tmp_path / "before", tmp_path / "after", "--json", *words)
    found = [CliRunner().invoke(app, [str(each) for each in (*rest, *more)]) for more in ((), RAY)]
    here, far = (without(json.loads(each.stdout), "seconds") for each in found)
    assert far == here
    worded = [each["caption"] for each in here["files"] if each["status"] == "changed"]
    assert worded == ["the mug is gone"] * 10
    asked = len(server.bodies) // 2
    assert all(f"tiny: {asked} questions asked" in each.stderr for each in found)
    wording = Wording(model=server.model, options=LoadOptions(model_options={"no_cache": "true"}))
    sides = {side: tmp_path / side / "01.png" for side in ("before", "after")}
    job = Job(name="01.png", **sides, options=ComparisonOptions(), outputs=Outputs())
    (line,) = CompareWork(words=wording).start()([job])  # as in a worker
    assert line["caption"] == "the mug is gone"
    assert line["spent"]
    assert str(found[0].exception) == str(found[1].exception) == "1 of 12 images cannot be read; their lines say why"


def test_a_served_model_is_asked_by_workers_and_its_cost_told_here(serve: Any, data_set: Path, tmp_path: Path) -> None:
    good = json.dumps({"changed": True, "caption": "the red mug is gone"})
    server = serve(lambda body, tries: completion(good))
    rest = ("--model-option", "no_cache=true", "--batch-size", "2")
    pairs = data_set / "train" / "metadata.jsonl"
    command = ("caption", "--pairs", pairs, "--model", server.model, "--out", tmp_path / "out.jsonl", *rest, *RAY)
    done = CliRunner().invoke(app, [str(each) for each in command])
    assert done.exit_code == 0, done.stderr
    asked = len(server.bodies)
    assert asked >= 6
    assert f"tiny: {asked} questions asked, 0 answered before; {700 * asked:,} tokens in" in done.stderr
    measured = ("evaluate", server.model, data_set, "--split", "train", "--no-meteor", "--json", *rest)
    told = [CliRunner().invoke(app, [str(each) for each in (*measured, *more)]) for more in ((), RAY)]
    assert json.loads(told[0].stdout) == json.loads(told[1].stdout)
    for each in told:
        assert f"tiny: {asked} questions asked" in each.stderr
