"""Whatever is wrong with what a command is given: one line, exit code 2, no traceback; and 70 for our own mistakes."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from spotchange.cli import main as command_line
from spotchange.cli.failures import exit_code_of
from spotchange.cli.output import visible

DEEP = "[" * 100_000
LONG = "x" * 5000


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`spotchange ARGUMENTS` in a folder with a few images: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (32, 24), "red").save(tmp_path / name)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spotchange", *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        told = capfd.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return call


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ROW = {"id": "1", "before_file_name": "a.png", "after_file_name": "b.png"}
MANIFESTS = {
    "empty": "",
    "deep": DEEP,
    "digits": "1" * 10_000,
    "list": "[1, 2]\n",
    "binary": b"\x00\xff\xfe" * 99,
    "nul": json.dumps(ROW | {"before_file_name": "a\0b"}),
    "twice": 2 * (json.dumps(ROW) + "\n"),
    "long": json.dumps(ROW | {"before_file_name": LONG}),
}
RECIPES = {
    "empty": "",
    "deep": DEEP,
    "digits": "seed: " + "1" * 10_000,
    "date": "seed: 2026-99-99",
    "laughs": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(
        f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "loop": "a: &a [*a]",
    "tag": "!!python/object/apply:os.system ['touch owned']",
    "binary": b"\x00\xff\xfe" * 99,
    "seed": "seed: -1",
    "large": "x: " + "y" * 2_000_000,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests(run: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / "pairs.jsonl", MANIFESTS[name])
    code, out, err = run("caption", "--pairs", "pairs.jsonl", "--model", "pixels", "--out", "out.jsonl")
    assert code == 2, err
    assert "Traceback" not in err
    assert sum(line.startswith("error:") for line in err.splitlines()) == 1
    assert out == ""


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(run: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / "recipe.yaml", RECIPES[name])
    code, _, err = run("config", "check", "recipe.yaml")
    assert code == 2, err
    assert err.startswith("error: ")
    assert len(err) < 2000
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("text", [DEEP, '{"a": ' + "1" * 10_000 + "}", '{"a": NaN', "\x00", '{"a": {"b": 1}}', "[]"])
def test_score_files(run: Any, tmp_path: Path, text: str) -> None:
    write(tmp_path / "p.json", text)
    write(tmp_path / "r.json", '{"a": ["x"]}')
    for order in (("p.json", "r.json"), ("r.json", "p.json")):
        code, _, err = run("score", *order, "--no-meteor")
        assert code == 2, err
        assert err.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["caption", LONG, "b.png"],
        ["caption", "a.png", "b.png", "--model", LONG],
        ["caption", "a.png", "b.png", "--threads", "100000"],
        ["caption", "a.png", "b.png", "--model", "pixels", "--heatmap", "no/such\0name.png"],
        ["caption", "a.png", "b.png", "--model", "pixels", "--heatmap", "a.png/below.png"],
        ["caption", "--pairs", LONG],
        ["caption", "--pairs", "pipe"],
        ["caption", "pipe", "b.png", "--model", "pixels"],
        ["caption", "--pairs", "pairs.jsonl", "--model", "pixels", "--out", "pipe"],
        ["caption", "--pairs", "pairs.jsonl", "--model", "pixels", "--out", "/dev/zero"],
        ["score", "pipe", "pipe"],
        ["config", "check", "pipe"],
        ["generate", "--out", "x", "--pairs", "4", "--seed", "-1"],
        ["generate", "--out", "x", "--pairs", "4", "--seed", str(10**30)],
        ["generate", "--out", "x", "--pairs", "4", "--start", str(10**30)],
        ["generate", "--out", "x", "--pairs", str(10**18)],
        *(
            ["generate", "--world", "everyday", "--out", "x", "--pairs", "4", option, value]
            for option, value in (
                ("--seed", str(2**63 - 1)),
                ("--pairs", "0"),
                ("--pairs", "-3"),
                ("--changes", "0"),
                ("--changes", "color"),
                ("--size", "8000x8000"),
            )
        ),
        ["generate", "--out", "a.png/x", "--pairs", "4", "--size", "48x32", "--quality", "fast", "--device", "cpu"],
        ["data", "check", LONG],
        ["data", "preview", "nowhere", "--out", "x.png", "--seed", "-5"],
        ["models", "show", LONG],
        ["models", "import", LONG, "--out", "m"],
        ["train", LONG],
        ["train", "smoke/adapt", "--out", "a.png"],
        ["evaluate", LONG, LONG],
        ["no-such-verb"],
        ["caption", "--no-such-option"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_arguments(run: Any, tmp_path: Path, arguments: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "pairs.jsonl", json.dumps(ROW))
    code, _, err = run(*arguments)
    assert code == 2, err
    assert "Traceback" not in err
    assert [line for line in err.splitlines() if line.startswith("error: ")], err


@pytest.mark.parametrize(
    "arguments",
    [
        ["caption", "--pairs", "pairs.jsonl", "--model", "pixels", "--workers", "2"],
        ["compare", ".", ".", "--hints"],
        ["compare", ".", ".", "--model-option", "prompt=plain"],
    ],
    ids=" ".join,
)
def test_options_that_would_do_nothing_are_refused(run: Any, tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "pairs.jsonl", json.dumps(ROW))
    code, _, err = run(*arguments)
    assert code == 2, err
    assert arguments[-2].removeprefix(".") in err or arguments[-1] in err


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        (["train", "smoke/adapt"], "spotchange.training.run.prepare"),
        (["generate", "--pairs", "4", "--device", "cpu"], "spotchange.scenes.dataset.World"),
        (["data", "features", "idc_pcl/scenes-pretrain", "--scenes", "4"], "spotchange.training.start.start_model"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("out", ["a.png", "a.png/below"])
def test_what_cannot_be_written_is_refused_before_any_work(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], work: str, out: str
) -> None:
    def begun(*_: Any, **__: Any) -> None:
        pytest.fail("it began to work")

    monkeypatch.setattr(work, begun)
    code, _, err = run(*arguments, "--out", out)
    assert code == 2, err
    assert err.startswith(f"error: cannot write {out}"), err


def test_a_name_that_is_not_utf8_is_answered(run: Any, tmp_path: Path) -> None:
    for folder in ("x", "y"):
        os.mkdir(tmp_path / folder)
        (tmp_path / "a.png").replace(tmp_path / folder / "a.png") if folder == "x" else None
        path = os.fsencode(tmp_path / folder) + b"/\xff\x1b[31m.png"
        with open(path, "wb") as file:
            file.write((tmp_path / "b.png").read_bytes())
    code, out, _ = run("caption", "x", "y", "--model", "pixels")
    assert code == 0
    assert "\x1b" not in out
    assert "\\x1b[31m.png: " in out
    code, out, _ = run("caption", "x", "y", "--model", "pixels", "--json")
    assert json.loads(out)["id"].endswith("[31m.png")
    code, _, err = run("caption", "x", "y", "--model", "pixels", "--out", "out.jsonl")
    assert code == 0, err
    assert json.loads((tmp_path / "out.jsonl").read_text())["changed"] is False


def test_damaged_metadata_of_an_image_are_no_second_message(tmp_path: Path) -> None:
    """Pillow warns of them, with its own paths and lines; outside of pytest nobody turns that into an error."""
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (32, 24), "red").save(tmp_path / "a.jpg", exif=exif)
    content = (tmp_path / "a.jpg").read_bytes()
    start = content.index(b"Exif") + 6
    (tmp_path / "b.jpg").write_bytes(content[: start + 8] + b"\xff\x0f" + content[start + 10 :])
    told = subprocess.run(
        [sys.executable, "-m", "spotchange", "caption", "a.jpg", "b.jpg", "--model", "pixels"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")


def test_control_characters_are_written_out(run: Any) -> None:
    assert visible("a\x1b[2Jb\x9b\x07\ttab") == "a\\x1b[2Jb\\x9b\\x07\ttab"
    code, _, err = run("caption", "no\x1b]0;owned\x07.png", "b.png", "--model", "pixels")
    assert code == 2
    assert "\x1b" not in err


@pytest.mark.parametrize("damage", ["cut", "no end", "..-000000.tar", "a/b", "json"])
def test_shards(run: Any, tmp_path: Path, damage: str) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    path = shards / ("..-000000.tar" if damage == "..-000000.tar" else "train-000000.tar")
    with tarfile.open(path, "w") as shard:
        for key in ("1", "2"):
            row = DEEP.encode() if damage == "json" else json.dumps({"captions": ["x"]}).encode()
            files = {"before.png": b"x", "after.png": b"y", "json": row}
            for name, content in files.items():
                member = tarfile.TarInfo(f"{'../../' if damage == 'a/b' else ''}{key}.{name}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: 3 * 1024])  # at the border of two pairs
    elif damage == "no end":
        path.write_bytes(path.read_bytes()[: 6 * 1024])
    code, _, err = run("data", "unshard", "shards", "--out", "out/set")
    if damage == "a/b":  # names inside decide nothing
        assert code == 0, err
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a.png", "b.png", "out", "shards"]
    else:
        assert code == 2, err
        assert err.startswith("error: ")
        assert not (tmp_path / "out" / "set").exists()
        assert not (tmp_path / "metadata.jsonl").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"vision": {"layers": 10**9}},
        {"vision": {"width": 10**12, "heads": 1}},
        {"vision": {"image_size": [10**9, 32]}},
        {"text": {"context": 10**12}},
        {"vocabulary": {"size": 10**15}},
        {"vision": {"layers": -1}},
        {"vision": {"layers": 1e400}},
        "deep",
        [],
        None,
    ],
    ids=str,
)
def test_model_folders(run: Any, tmp_path: Path, settings: Any) -> None:
    config = DEEP if settings == "deep" else json.dumps({"model_type": "spotchange", "settings": settings})
    write(tmp_path / "model" / "config.json", config)
    for name in ("tokenizer.json", "preprocessor_config.json", "model.safetensors.index.json"):
        write(tmp_path / "model" / name, "{}")
    for arguments in (["models", "show", "model"], ["caption", "a.png", "b.png", "--model", "model"]):
        code, _, err = run(*arguments)
        assert code == 2, err
        assert err.startswith("error: ")


def test_our_own_mistakes_are_told_in_one_line_and_kept_in_a_file(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by mistake")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(command_line, "app", fail)
    code, out, err = run("caption")
    assert code == 70
    assert out == ""
    assert "ZeroDivisionError: by mistake" in err.splitlines()[0]
    (kept,) = tmp_path.glob("spotchange-error-*.txt")
    assert str(kept) in err.replace("\n", "")
    assert "Traceback" in kept.read_text()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2),
        (MemoryError(), 2),
        (RuntimeError("x"), 70),
        (RecursionError(), 70),
        (SystemExit(3), 3),
        (SystemExit(1), 70),
        (SystemExit("gave up"), 70),
        (BrokenPipeError(), 141),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(error) == code
    assert "Traceback" not in capsys.readouterr().err


def test_streams_that_nobody_reads_never_look_like_a_verdict(tmp_path: Path) -> None:
    """The framework exits with 1 when a reader goes away, the interpreter when there is no stderr to complain to."""
    command = f"{shlex.quote(sys.executable)} -m spotchange"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [*shlex.split(command), "config", "list"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:  # nor does an error that nobody reads
        done = subprocess.run([*shlex.split(command), "caption", "nope.png", "nope.png"], stderr=pipe, check=False)
    assert done.returncode == 2
    endings = {
        "config list >&-": 0,
        "caption nope.png nope.png 2>&-": 2,
        "caption nope.png nope.png >/dev/full 2>/dev/full": 2,
    }
    for ending, code in endings.items():
        assert subprocess.run(f"{command} {ending}", shell=True, cwd=tmp_path, check=False).returncode == code, ending


@pytest.mark.slow
def test_an_interrupted_train_exits_with_130(tmp_path: Path) -> None:
    small = "{preset: spotchange-tiny, vision: {image_size: [24, 36], width: 16, layers: 2, n_inter: 1}}"
    changes = [
        f"model={small}",
        "stage.pairs_per_step=4",
        "stage.steps=100000",
        "validation.every=100000",
        "log.every=1",
    ]
    command = [sys.executable, "-m", "spotchange", "train", "smoke/adapt", "--out", str(tmp_path / "run")]
    command += [part for each in changes for part in ("--set", each)]
    with subprocess.Popen([*command, "--device", "cpu"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step "):
                process.send_signal(2)
                break
        rest = process.stderr.read()
        assert process.wait(600) == 130, rest
    assert "--resume goes on" in rest
    assert (tmp_path / "run" / "last").is_dir()


@pytest.mark.parametrize("name", ["calibration.json", "familiarity.safetensors", "tokenizer.json", "config.json"])
def test_a_pipe_in_a_model_folder_is_not_waited_for(run: Any, tmp_path: Path, name: str) -> None:
    bundled = Path(command_line.__file__).parents[1] / "assets" / "spotchange-small"
    (tmp_path / "model").mkdir()
    for each in bundled.iterdir():
        if each.name != name:
            (tmp_path / "model" / each.name).symlink_to(each)
    os.mkfifo(tmp_path / "model" / name)
    code, _, err = run("caption", "a.png", "b.png", "--model", "model")
    assert code == 2, err
    assert err.startswith("error: ")
