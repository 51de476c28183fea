"""What is said about a run: JSON lines on disk, TensorBoard if wanted, a progress bar on stderr."""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spotchange.config.training import LogSettings
from spotchange.errors import MissingExtraError
from spotchange.files import load_json
from spotchange.metrics import METRICS


def readable(name: str, value: float) -> str:
    """A number for people: caption metrics times 100, as in papers and in every table; JSON keeps them as they are."""
    return f"{100 * value:.1f}" if name in METRICS else f"{value:.4f}"


class RunLog:
    """Writes for the main process; silent in every other."""

    def __init__(self, out: Path, settings: LogSettings, *, steps: int, start: int, main: bool) -> None:
        self._main = main
        self._steps = steps
        self._tensorboard = None
        if not main:
            return
        out.mkdir(parents=True, exist_ok=True)
        self._path = out / "log.jsonl"
        if start == 0:
            self._path.unlink(missing_ok=True)
        else:
            _forget_after(self._path, start)
        self._began = time.monotonic()
        if settings.tensorboard:
            self._tensorboard = _tensorboard_writer(out)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            disable=not (sys.stderr.isatty() or _notebook_shows_bars()),
        )
        self._task = self._progress.add_task("training", total=steps, completed=start, note="")
        self._progress.start()

    def step(self, values: dict[str, Any]) -> None:
        """One line about training at `values["step"]`."""
        self._write("train", values)
        if self._main:
            note = f"loss {values['loss']:.4f}  {values['pairs_per_second']:,.0f} pairs/s"
            self._progress.update(self._task, completed=values["step"], note=note)
            if self._progress.disable:
                left = (self._steps - values["step"]) * values["seconds_per_step"] / 60
                self.say(f"step {values['step']}/{self._steps}  {note}  {left:.1f} min left")

    def validation(self, values: dict[str, Any]) -> None:
        """One line about the held-out pairs."""
        self._write("validation", values)
        shown = "  ".join(
            f"{name} {readable(name, value)}" for name, value in values.items() if isinstance(value, float)
        )
        self.say(f"step {values['step']}  validation  {shown}")

    def event(self, what: str, **values: Any) -> None:
        """Something that happens once: start, resume, stop, end."""
        self._write(what, values)

    def say(self, text: str) -> None:
        """A plain line on stderr."""
        if self._main:
            self._progress.console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        """End the progress bar and flush."""
        if self._main:
            self._progress.stop()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _write(self, kind: str, values: dict[str, Any]) -> None:
        if not self._main:
            return
        line = {"kind": kind, **values, "seconds": round(time.monotonic() - self._began, 3)}
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        if self._tensorboard is not None and "step" in values:
            for name, value in values.items():
                if isinstance(value, float):
                    self._tensorboard.add_scalar(f"{kind}/{name}", value, values["step"])


def _notebook_shows_bars() -> bool:
    """rich draws them with ipywidgets; without, lines are printed as into any file."""
    return Console().is_jupyter and find_spec("ipywidgets") is not None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that a killed run left unfinished is dropped."""
    lines: list[dict[str, Any]] = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(load_json(text))
        except json.JSONDecodeError:
            continue
    return lines


def _forget_after(path: Path, step: int) -> None:
    """Drop lines of steps that the resumed run will take again, so that the log tells one story."""
    kept = [line for line in read_log(path) if line.get("step", 0) <= step]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def _tensorboard_writer(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("log.tensorboard", extra="dev") from error
    return SummaryWriter(out / "tensorboard")
