"""Plans of GPU sessions (`gpu_session.py`, `gpu_check.py`): what their files say.

PLAN.yaml: `needs` (files that must be there), `mps` (whether several processes share the GPU), `values` (names and what
stands for {NAME} in the jobs; `--set NAME=VALUE` changes one) and `lanes`, each a list of jobs that run one after the
other. A job has

- `name`, and `run`, one command line; {left} is its limit in minutes, {train} what is left of it for training;
- `minutes`: at most; without it whatever is left;
- `needs`: files without which it is left out: what another command brings, or another job makes;
- `once`: left out where it ended well before on this machine, so that the same command goes on;
- `keep`: patterns of files to bring back, in the order in which they are wanted;
- `resume`: a folder: --resume is added where it exists;
- `watch`: a log, minutes within which it must tell of a step, with a loss `below` a number if one is given, and words
  with which the job begins once more, from nothing, if it does not, or fails before;
- `small`: the command line that --small tries on a CPU; {run} is the job's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOGS = Path("out/session")


@dataclass
class Watch:
    """A log that must tell of a step within so many minutes, or the job begins once more with further words."""

    file: str
    minutes: float
    words: str
    below: float = float("inf")
    """What the loss must have fallen below by then."""

    def seen(self) -> bool:
        path = Path(self.file)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        losses = re.findall(r'"loss": ([-+.\de]+)', "\n".join(line for line in lines if '"train"' in line))
        return any(float(loss) < self.below for loss in losses)


@dataclass
class Job:
    """One command of the plan, and how it went."""

    name: str
    run: str
    minutes: float | None = None
    needs: list[str] = field(default_factory=list)
    once: bool = False
    keep: list[str] = field(default_factory=list)
    resume: str | None = None
    watch: Watch | None = None
    small: str = ""
    began: float | None = None
    took: float = 0.0
    code: int | None = None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def done(self) -> Path:
        """Is there once the job has ended well."""
        return LOGS / f"{self.name}.done"

    @property
    def why_not(self) -> str | None:
        """Why it is left out now; None where it is to run."""
        missing = next((need for need in self.needs if not Path(need).exists()), None)
        if missing is not None:
            return f"{missing} is not there"
        return "done before" if self.once and self.done.exists() else None

    @property
    def last_lines(self) -> list[str]:
        """The end of its log, newest last."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line.strip() for line in lines if any(map(str.isalnum, line))][-12:]

    @property
    def last_line(self) -> str:
        return next((line[:110] for line in self.last_lines[-1:]), "")


@dataclass
class Plan:
    """What a file says."""

    lanes: list[list[Job]]
    needs: list[str] = field(default_factory=list)
    mps: bool = False

    @property
    def jobs(self) -> list[Job]:
        return [job for lane in self.lanes for job in lane]


def read_plan(path: Path, changes: Sequence[str] = ()) -> Plan:
    """The plan with its values filled in; `changes` are NAME=VALUE."""
    import yaml

    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    values = {name: str(value) for name, value in content.pop("values", {}).items()}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in values:
            raise SystemExit(f"{path}: no value is called {name}; there are: {', '.join(values) or 'none'}")
        values[name] = value
    content = _filled(content, values)
    plan = Plan(**content | {"lanes": [[_job(job) for job in lane] for lane in content["lanes"]]})
    names = [job.name for job in plan.jobs]
    if len(set(names)) < len(names):
        raise SystemExit("two jobs have the same name")
    return plan


def _filled(content: Any, values: dict[str, str]) -> Any:
    """Every {NAME} in every text."""
    if isinstance(content, dict):
        return {key: _filled(value, values) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled(value, values) for value in content]
    if isinstance(content, str):
        for name, value in values.items():
            content = content.replace(f"{{{name}}}", value)
    return content


def _job(values: dict[str, Any]) -> Job:
    return Job(**values | ({"watch": Watch(**values["watch"])} if "watch" in values else {}))
