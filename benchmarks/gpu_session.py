"""A plan of jobs for one short GPU session: lanes side by side, a time limit each, results packed while they run.

python benchmarks/gpu_session.py PLAN.yaml --out FOLDER [--total 9.6] [--small]

PLAN.yaml: `lanes`, each a list of jobs that run one after the other. A job has a `name`, a `run` (one command line;
{left} is its limit in minutes), `minutes` (at most; without it whatever is left), `keep` (patterns of files to bring
back, in the order in which they are wanted) and `small` (words added by --small, to try the plan on a CPU).

At its limit a job is interrupted: `spotchange train` and `ablate` then save and end by themselves. Nothing is killed
before the very end, since under MPS a killed process takes its neighbours with it. FOLDER gets what is to be kept as
parts of one tar file below 15 MiB (packed every minute, so that a session that is cut off loses little) and
`session.json`, the table that is also printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PART = 14 * 2**20
PARTS = 7  # eight files come back, one of them the table
PACK_EVERY = 60.0  # seconds
SAVING = 25.0  # seconds that a job has to save and end after it was interrupted
PACKING = 0.3  # minutes at the end
LOGS = Path("out/session")


@dataclass
class Job:
    """One command of the plan, and how it went."""

    name: str
    run: str
    minutes: float | None = None
    keep: list[str] = field(default_factory=list)
    small: str = ""
    began: float | None = None
    took: float = 0.0
    code: int | None = None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def last_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line.strip()[:110] for line in reversed(lines) if any(map(str.isalnum, line))), "")


class Session:
    """All lanes until the end of the session."""

    def __init__(self, lanes: list[list[Job]], out: Path, *, total: float, small: bool) -> None:
        self.lanes, self.out, self.small = lanes, out, small
        self.began = time.monotonic()
        self.end = self.began + 60 * (total - PACKING)
        self.running: list[subprocess.Popen[bytes]] = []
        LOGS.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)

    @property
    def jobs(self) -> list[Job]:
        return [job for lane in self.lanes for job in lane]

    def run(self) -> None:
        threads = [threading.Thread(target=self._lane, args=(lane,), daemon=True) for lane in self.lanes]
        for thread in threads:
            thread.start()
        packed = time.monotonic()
        while any(thread.is_alive() for thread in threads) and time.monotonic() < self.end + SAVING:
            time.sleep(0.2)
            if time.monotonic() - packed > PACK_EVERY:
                self.pack()
                packed = time.monotonic()
        for process in self.running:  # the session is over: whoever still runs now has had its time
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.pack()
        self.report()

    def _lane(self, lane: list[Job]) -> None:
        for job in lane:
            left = self.end - SAVING - time.monotonic()
            limit = left if job.minutes is None else min(left, 60 * job.minutes)
            if limit > (1 if self.small else 20):  # less is not worth starting
                self._job(job, limit)
            self.save_table()

    def _job(self, job: Job, limit: float) -> None:
        command = shlex.split(job.run.replace("{left}", f"{max(limit - SAVING, limit / 2) / 60:.2f}"))
        command = [sys.executable if word == "python" else word for word in command]
        if self.small:
            command += shlex.split(job.small)
        job.began = time.monotonic()
        with job.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append(process)
        print(f"[{self.minutes:.2f}] {job.name}: begins, at most {limit / 60:.2f} minutes", flush=True)
        try:
            job.code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGINT)  # the process itself: its workers hear of it from their parent
            print(f"[{self.minutes:.2f}] {job.name}: interrupted at its limit", flush=True)
            job.code = process.wait()
        job.took = (time.monotonic() - job.began) / 60
        print(f"[{self.minutes:.2f}] {job.name}: ended with {job.code}: {job.last_line}", flush=True)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    def pack(self) -> None:
        """Logs, and what the jobs want kept, up to what comes back; what does not fit is named."""
        files = dict.fromkeys(sorted(LOGS.glob("*.log")))
        for job in self.jobs:
            for pattern in job.keep:
                files |= dict.fromkeys(each for each in sorted(Path().glob(pattern)) if each.is_file())
        whole = LOGS / "kept.tar.gz"
        room, left_out = PARTS * PART - 2**20, []
        with tarfile.open(whole, "w:gz", compresslevel=1) as archive:
            for file in files:
                try:
                    size = file.stat().st_size + 1536  # a header, and the rest of a block
                    if size > room:
                        left_out.append(str(file))
                        continue
                    archive.add(file)
                    room -= size
                except OSError:  # a folder that is just being replaced: the next packing has it
                    continue
        with whole.open("rb") as data:
            number = 0
            while part := data.read(PART):
                (self.out / f"kept.tar.gz.{number}").write_bytes(part)
                number += 1
        self.save_table(left_out)

    def save_table(self, left_out: list[str] | None = None) -> None:
        rows: list[dict[str, Any]] = [
            {"job": job.name, "minutes": round(job.took, 2), "code": job.code, "last": job.last_line}
            for job in self.jobs
        ]
        (self.out / "session.json").write_text(json.dumps({"jobs": rows, "left_out": left_out or []}, indent=1) + "\n")

    def report(self) -> None:
        print(f"\n{'job':28} {'minutes':>7} {'code':>5}  last line")
        for job in self.jobs:
            code = "-" if job.code is None else str(job.code)
            print(f"{job.name:28} {job.took:7.2f} {code:>5}  {job.last_line}")
        print(f"minutes in all: {self.minutes:.2f}", flush=True)


def start_mps() -> Path | None:
    """A daemon that lets processes share the GPU at once; None where there is none to be had."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="mps-"))
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    subprocess.run([control, "-d"], check=False)
    return folder


def read_plan(path: Path) -> list[list[Job]]:
    import yaml

    lanes = [[Job(**job) for job in lane] for lane in yaml.safe_load(path.read_text(encoding="utf-8"))["lanes"]]
    names = [job.name for lane in lanes for job in lane]
    if len(set(names)) < len(names):
        raise SystemExit("two jobs have the same name")
    return lanes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--total", type=float, default=9.6, help="minutes for everything, packing included")
    parser.add_argument("--small", action="store_true", help="try the plan on a CPU: adds what the jobs say")
    options = parser.parse_args()
    path = os.pathsep.join(filter(None, ["src", os.getenv("PYTHONPATH")]))
    os.environ |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    lanes = read_plan(options.plan)
    if len(lanes) > 1 and not options.small:
        start_mps()
    Session(lanes, options.out, total=options.total, small=options.small).run()


if __name__ == "__main__":
    main()
