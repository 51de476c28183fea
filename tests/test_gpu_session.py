"""The driver of a GPU session: lanes side by side, limits kept by interrupting, results packed in small parts."""

from __future__ import annotations

import importlib
import json
import random
import shlex
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
# Works until it is interrupted, then saves and ends, as `spotchange train` does.
PATIENT = """
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path("kept/saved.txt").write_text("saved")
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
print("working", flush=True)
time.sleep(60)
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("gpu_session")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    return module


def run(driver: ModuleType, lanes: list[list[dict[str, object]]], *, total: float) -> dict[str, object]:
    Path("plan.yaml").write_text(yaml.safe_dump({"lanes": lanes}))
    session = driver.Session(driver.read_plan(Path("plan.yaml")).lanes, Path("out"), total=total, small=True)
    session.run()
    return json.loads(Path("out/session.json").read_text())


def test_a_job_at_its_limit_saves_and_the_next_begins(driver: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "SAVING", 10.0)
    Path("patient.py").write_text(PATIENT)
    lanes = [
        [
            {"name": "long", "run": "python patient.py", "minutes": 0.05, "keep": ["kept/*"]},
            {"name": "next", "run": "python -c 'print(40 + 2)'"},
        ],
        [{"name": "beside", "run": "python -c", "small": "{run} \"import sys; sys.exit('out of memory')\""}],
    ]
    table = run(driver, lanes, total=2.0)
    jobs = {job["job"]: job for job in table["jobs"]}
    assert (jobs["long"]["code"], jobs["next"]["code"], jobs["beside"]["code"]) == (130, 0, 1)
    assert jobs["next"]["last"] == "42"
    assert jobs["beside"]["last"] == "out of memory"
    with tarfile.open("out/kept.tar.gz.0") as archive:
        assert {"kept/saved.txt", "out/session/long.log"} <= set(archive.getnames())


def test_what_does_not_fit_is_named_and_parts_are_small(driver: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PART", 2**20)
    monkeypatch.setattr(driver, "PARTS", 3)
    generator = random.Random(1)
    Path("kept/first.bin").write_bytes(generator.randbytes(3 * 2**19))
    Path("kept/large.bin").write_bytes(generator.randbytes(2**20))
    lanes = [[{"name": "one", "run": "python -c pass", "keep": ["kept/first.bin", "kept/large.bin"]}]]
    table = run(driver, lanes, total=2.0)
    assert table["left_out"] == ["kept/large.bin"]
    parts = sorted(Path("out").glob("kept.tar.gz.*"))
    assert len(parts) == 2
    assert all(part.stat().st_size <= 2**20 for part in parts)
    Path("whole.tar.gz").write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open("whole.tar.gz") as archive:
        assert "kept/first.bin" in archive.getnames()


def test_what_calls_a_run_finished_is_packed_last(driver: ModuleType) -> None:
    for name in ("summary.json", "captions.jsonl"):
        Path("kept", name).write_text("{}")
    run(driver, [[{"name": "one", "run": "python -c pass", "keep": ["kept/summary.json", "kept/*"]}]], total=2.0)
    with tarfile.open("out/kept.tar.gz.0") as archive:
        assert archive.getnames()[-1] == "kept/summary.json"


def test_parts_of_a_larger_packing_do_not_stay(driver: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PART", 2**20)
    Path("kept/model.bin").write_bytes(random.Random(1).randbytes(5 * 2**19))
    session = driver.Session([[driver.Job("one", "python -c pass", keep=["kept/*"])]], Path("out"), total=1, small=True)
    session.pack()
    assert len(list(Path("out").glob("kept.tar.gz.*"))) == 3
    Path("kept/model.bin").write_bytes(b"small")
    session.pack()
    assert [part.name for part in Path("out").glob("kept.tar.gz.*")] == ["kept.tar.gz.0"]


def test_a_packing_that_fails_does_not_end_the_session(driver: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may vanish while its files are looked for; the last packing has everything."""
    monkeypatch.setattr(driver, "PACK_EVERY", 0.0)
    packed, calls = driver.Session.pack, []

    def vanishing(session: object) -> None:
        calls.append(session)
        if len(calls) == 1:
            raise FileNotFoundError("kept/a")
        packed(session)

    monkeypatch.setattr(driver.Session, "pack", vanishing)
    table = run(driver, [[{"name": "one", "run": "python -c 'import time; time.sleep(1)'"}]], total=2.0)
    assert table["jobs"][0]["code"] == 0
    assert Path("out/kept.tar.gz.0").exists()


def test_what_comes_back_stays_below_the_limits(driver: ModuleType) -> None:
    assert driver.PART < 16 * 2**20
    assert driver.PARTS * driver.PART < 63 * 2**20  # of 64, a MiB for the table and what was printed


def test_a_job_goes_on_where_it_stopped(driver: ModuleType) -> None:
    job = {"run": "python -c 'import sys; print(sys.argv[1:])'", "resume": "kept/last"}
    first = run(driver, [[{"name": "first", **job}]], total=2.0)
    Path("kept/last").mkdir()
    second = run(driver, [[{"name": "second", **job}]], total=2.0)
    assert (first["jobs"][0]["last"], second["jobs"][0]["last"]) == ("", "['--resume']")


def test_the_same_command_goes_on(driver: ModuleType) -> None:
    """What another command must bring first waits; what ended well is not done twice; what did not is."""
    lanes = [
        [
            {"name": "made", "run": "python -c 'print(1)'", "once": True},
            {"name": "after", "run": "python -c 'print(2)'", "needs": ["out/session/made.done", "kept/brought"]},
            {"name": "broken", "run": "python -c 'import sys; sys.exit(1)'", "once": True},
        ]
    ]

    def codes() -> list[int | None]:
        session = driver.Session(driver.read_plan(Path("plan.yaml")).lanes, Path("out"), total=2.0, small=False)
        session.run()
        return [job["code"] for job in json.loads(Path("out/session.json").read_text())["jobs"]]

    Path("plan.yaml").write_text(yaml.safe_dump({"lanes": lanes}))
    assert codes() == [0, None, 1]
    Path("kept/brought").touch()
    assert codes() == [None, 0, 1]
    assert run(driver, lanes, total=2.0)["jobs"][0]["code"] == 0  # tried in small: not the real thing


def test_values_of_a_plan_are_filled_in(driver: ModuleType) -> None:
    job = {"name": "seed-{seed}", "run": "train --set seed={seed} --minutes {left}", "keep": ["out/{seed}/*"]}
    Path("plan.yaml").write_text(yaml.safe_dump({"values": {"seed": 1}, "lanes": [[job]]}))
    (filled,) = driver.read_plan(Path("plan.yaml"), ["seed=3"]).jobs
    assert (filled.name, filled.keep) == ("seed-3", ["out/3/*"])
    assert filled.run == "train --set seed=3 --minutes {left}"
    with pytest.raises(SystemExit, match="no value is called seeds; there are: seed"):
        driver.read_plan(Path("plan.yaml"), ["seeds=3"])


def test_a_job_that_learns_nothing_begins_once_more(driver: ModuleType) -> None:
    """A compiler that never ends must not cost the session, nor a collapsed model that is gone on with."""
    Path("job.py").write_text(
        "import pathlib, sys, time; print(sys.argv[1:], flush=True); pathlib.Path('kept/last').mkdir(parents=True)\n"
        "time.sleep(0 if '--plain' in sys.argv else 60)"
    )
    watch = {"file": "kept/log.jsonl", "minutes": 0.03, "words": "--plain"}
    job = {"run": "python job.py {train}", "resume": "kept/last", "watch": watch}
    table = run(driver, [[{"name": "stuck", **job}]], total=3.0)
    assert table["jobs"][0]["code"] == 0
    assert table["jobs"][0]["last"].endswith("'--plain']")  # from nothing, not with --resume
    Path("kept/log.jsonl").write_text('{"kind": "train", "loss": 1.0}')
    assert not driver.Watch(**job["watch"], below=0.5).seen()  # steps, and nothing learnt in them
    Path("job.py").write_text("import sys, time; time.sleep(0.3); sys.exit('failed')")
    late = driver.Job("late", "python job.py", watch=driver.Watch(**watch))
    driver.Session([], Path("out"), total=3.0, small=True)._job(late, 1.2)
    assert late.code is not None
    assert late.log.read_text() in {"failed\n", ""}  # not once more in the second that is left
    Path("job.py").write_text("import time; time.sleep(4); print('learnt')")
    table = run(driver, [[{"name": "slow", **job}]], total=3.0)
    assert table["jobs"][0]["last"] == "learnt"


def test_everything_that_is_missing_is_named(tmp_path: Path) -> None:
    lanes = [
        {"name": "typo", "run": "python -m spotchange train small/wide --set stage.stepps=3"},
        {"name": "none", "run": "python -m spotchange train small/nowhere"},
        {"name": "cell", "run": "python -m spotchange ablate adaptation --only 'no such cell'"},
        {"name": "gone", "run": "python benchmarks/nothing.py"},
        {"name": "good", "run": "python benchmarks/runs_table.py a b"},
    ]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({"needs": ["a/file"], "lanes": [lanes]}))
    check = [sys.executable, str(ROOT / "benchmarks" / "gpu_check.py"), str(tmp_path / "plan.yaml")]
    found = subprocess.run([*check, "--cpu"], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 2
    told = [line.partition(": ")[2].partition(":")[0] for line in found.stdout.splitlines() if "missing: " in line]
    assert told == ["typo", "none", "cell", "gone"]


@pytest.mark.parametrize("plan", sorted((ROOT / "runs").glob("*.yaml")), ids=lambda path: path.stem)
def test_plans_name_recipes_and_cells_that_exist(plan: Path, driver: ModuleType) -> None:
    from spotchange.config.ablation import Ablation
    from spotchange.config.recipes import ABLATIONS, find_recipe
    from spotchange.config.training import Recipe

    for job in driver.read_plan(plan).jobs:
        line = job.run.replace("{train}", "1.0")
        again = f"{line} {job.watch.words}" if job.watch else line
        for words in (shlex.split(each) for each in (line, again, job.small.replace("{run}", line) or line)):
            changes = [value for option, value in pairwise(words) if option == "--set"]
            verb = words[words.index("spotchange") + 1] if "spotchange" in words else None
            if verb == "train":
                Recipe.from_yaml(find_recipe(words[words.index("train") + 1]), changes)
            elif verb == "data" and "features" in words:
                Recipe.from_yaml(find_recipe(words[words.index("features") + 1]), changes)
            elif verb == "ablate" or words[1].endswith("ablation_small.py"):
                name = words[words.index("ablate") + 1] if verb else words[2]
                found = Ablation.from_yaml(find_recipe(name, within=ABLATIONS), changes)
                found.only([value for option, value in pairwise(words) if option == "--only"])
            elif verb is None:
                assert words[0] != "python" or words[1] == "-m" or (ROOT / words[1]).is_file()
            else:
                assert verb in {"data", "evaluate"}
