"""A plan of jobs for one short GPU session: lanes side by side, a time limit each, results packed while they run.

python benchmarks/gpu_session.py PLAN.yaml --out FOLDER [--set NAME=VALUE] [--total 9.6] [--small] [--check | --checked]

What a plan says: `gpu_plan.py`. What is missing ends the session within its first seconds (`gpu_check.py`; --check does
that alone).

At its limit a job is interrupted: `spotchange train` and `ablate` then save and end by themselves. Nothing is killed
before the very end, since under MPS a killed process takes its neighbours with it. FOLDER gets what is to be kept as
parts of one tar file (packed every minute, so that a session that is cut off loses little; `kept_runs.py` unpacks them)
and `session.json`, the table that is also printed.
"""

from __future__ import annotations

import argparse
import io
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
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from gpu_plan import LOGS, Job, Watch, read_plan

PART = 15 * 2**20
PARTS = 4  # 60 MiB: no more than 64 come back, in files of at most 16
PACK_EVERY = 60.0  # seconds
SAVING = 25.0  # seconds that a job has to save and end after it was interrupted
LEAST = 20.0  # seconds: less is not worth starting a job for
PACKING = 0.3  # minutes at the end
STARTING = 2.0  # minutes of a job before and after its training: imports, kernels, compiling, the last validation
INTERRUPTED = 128 + signal.SIGINT
NO_COMPILER = 3  # exit code of the check where nothing is missing but torch's compiler


class Session:
    """All lanes until the end of the session."""

    def __init__(self, lanes: list[list[Job]], out: Path, *, total: float, small: bool) -> None:
        self.lanes, self.out = lanes, out
        self.small, self.least = small, 1 if small else LEAST
        self.began = time.monotonic()
        self.end = self.began + 60 * (total - PACKING)
        self.running: list[subprocess.Popen[bytes]] = []
        LOGS.mkdir(parents=True, exist_ok=True)
        for mark in LOGS.glob("*.done") if small else ():
            mark.unlink()  # what was tried in small is still to be done
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
                try:
                    self.pack()
                except OSError as error:  # a folder vanished while it was read, say: no reason to end the session
                    print(f"[{self.minutes:.2f}] not packed, the next minute tries again: {error}", flush=True)
                packed = time.monotonic()
        for process in self.running:  # the session is over: whoever still runs now has had its time
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.pack()
        self.report()

    def _lane(self, lane: list[Job]) -> None:
        for job in lane:
            why_not = job.why_not
            if why_not is not None:
                print(f"[{self.minutes:.2f}] {job.name}: left out, {why_not}", flush=True)
                continue
            left = self.end - SAVING - time.monotonic()
            limit = left if job.minutes is None else min(left, 60 * job.minutes)
            if limit > self.least:
                self._job(job, limit)
            self.save_table()

    def _job(self, job: Job, limit: float) -> None:
        job.began = time.monotonic()
        job.code = self._attempt(job, limit, job.watch)
        if job.watch is not None and job.code not in (0, INTERRUPTED) and not job.watch.seen():
            left = limit - (time.monotonic() - job.began)
            shutil.rmtree(Path(job.watch.file).parent, ignore_errors=True)  # or it would go on with what learnt nothing
            if left > self.least:
                job.code = self._attempt(job, left, None, job.watch.words)
        job.took = (time.monotonic() - job.began) / 60
        if job.code == 0:
            job.done.touch()
        print(f"[{self.minutes:.2f}] {job.name}: ended with {job.code}: {job.last_line}", flush=True)
        if job.code not in (0, INTERRUPTED):
            print("\n".join(f"    {line[:300]}" for line in job.last_lines), flush=True)

    def _attempt(self, job: Job, limit: float, watch: Watch | None, words: str = "") -> int | None:
        """The exit code; None where the first sign of life did not come in time."""
        left, train = max(limit - SAVING, limit / 2) / 60, max(limit / 60 - STARTING, 0.5)
        line = job.small.replace("{run}", job.run) if self.small and job.small else job.run
        line = line.replace("{left}", f"{left:.2f}").replace("{train}", f"{train:.2f}")
        command = [sys.executable if word == "python" else word for word in shlex.split(f"{line} {words}")]
        if job.resume is not None and Path(job.resume).exists():
            command.append("--resume")
        with job.log.open("ab") as log:
            # A group of its own, to be ended as a whole; no session of its own, or it would outlive a cut-off command
            # and meet the next one in its folder.
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, process_group=0)
        self.running.append(process)
        print(f"[{self.minutes:.2f}] {job.name}: begins, at most {limit / 60:.2f} minutes", flush=True)
        try:
            if watch is not None and 60 * watch.minutes < limit:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(60 * watch.minutes)
                if not watch.seen():
                    self._end(process)
                    print(f"[{self.minutes:.2f}] {job.name}: nothing learnt yet; once more, {watch.words}", flush=True)
                    return None
                limit -= 60 * watch.minutes
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGINT)  # the process itself: its workers hear of it from their parent
            print(f"[{self.minutes:.2f}] {job.name}: interrupted at its limit", flush=True)
            return process.wait()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Interrupt it, as MPS wants it; kill what does not hear."""
        os.kill(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SAVING)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

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
        # What calls a run finished comes last: of an archive that is cut off, half a run must not count.
        ordered = sorted(files, key=lambda file: file.name == "summary.json")
        with tarfile.open(whole, "w:gz", compresslevel=1) as archive:
            for file in ordered:
                try:
                    facts, content = archive.gettarinfo(file), file.read_bytes()
                except OSError:  # a folder that is just being replaced: the next packing has it
                    continue
                size = len(zlib.compress(content, 1)) + 1536  # a header, and the rest of a block
                if size > room:
                    left_out.append(str(file))
                    continue
                facts.size = len(content)  # of what was read: it may be growing
                archive.addfile(facts, io.BytesIO(content))
                room -= size
        with whole.open("rb") as data:
            number = 0
            while part := data.read(PART):
                (self.out / f"kept.tar.gz.{number}").write_bytes(part)
                number += 1
        for stale in range(number, PARTS):  # an earlier packing was larger
            (self.out / f"kept.tar.gz.{stale}").unlink(missing_ok=True)
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


@contextmanager
def shared_gpu() -> Iterator[None]:
    """A daemon that lets processes share the GPU at once, where there is one to be had; it ends with the context."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    folder = tempfile.mkdtemp(prefix="mps-")
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    subprocess.run([control, "-d"], check=False)
    try:
        yield
    finally:  # the next session's daemon must not meet this one, nor what broke it
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([control], input=b"quit -t 5\n", check=False, timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("out/session/back"))
    parser.add_argument("--total", type=float, default=9.6, help="minutes for everything, packing included")
    parser.add_argument("--small", action="store_true", help="try the plan on a CPU, as its jobs say")
    parser.add_argument("--check", action="store_true", help="only say what is missing")
    parser.add_argument("--checked", action="store_true", help="an earlier command has looked: begin at once")
    options = parser.parse_args()
    path = os.pathsep.join(filter(None, ["src", os.getenv("PYTHONPATH")]))
    os.environ |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    began = time.monotonic()
    check = [sys.executable, str(Path(__file__).with_name("gpu_check.py")), str(options.plan)]
    check += [word for change in options.changes for word in ("--set", change)]
    code = 0 if options.checked else subprocess.run([*check, *["--cpu"] * options.small], check=False).returncode
    if code == NO_COMPILER and not options.check:
        print("going on without torch's compiler: slower", flush=True)
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    elif code or options.check:
        raise SystemExit(code)
    plan = read_plan(options.plan, options.changes)
    total = options.total - (time.monotonic() - began) / 60
    with shared_gpu() if plan.mps and not options.small else nullcontext():
        Session(plan.lanes, options.out, total=total, small=options.small).run()


if __name__ == "__main__":
    main()
