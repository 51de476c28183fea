"""A model's card: what it is, how it was made, and only figures that somebody measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from spotchange.errors import InputError
from spotchange.files import load_json, read_input
from spotchange.models.weights.description import read_json, read_settings

README = "README.md"
FIGURES = "## Figures"


def model_card(folder: Path, *, name: str, results: Path | None = None) -> str:
    """The folder's own README where it has one, else a new one; with `results` its figures are put in."""
    measured = _evaluated(results) if results is not None else []
    if (folder / README).is_file():
        text = (folder / README).read_text(encoding="utf-8")
        return with_figures(text if text.startswith("---\n") else _front({}) + text, measured)
    return new_card(folder, name=name, measured=measured)


def with_figures(text: str, measured: list[tuple[str, str, float]]) -> str:
    """A card with a table of figures at its end: (on what, what, value)."""
    return f"{text.rstrip()}\n\n{_table(measured)}" if measured else text


def new_card(folder: Path, *, name: str, measured: list[tuple[str, str, float]]) -> str:
    """A card from what the folder says; `measured` are (on what, what, value)."""
    settings = read_settings(folder)
    vision, captioner = settings.vision, settings.captioner
    height, width = vision.image_size
    address = name if "/" in name else "ORGANISATION/NAME"
    ability = "a sentence about what changed" if captioner is not None else "which caption fits (it has no captioner)"
    parts = [
        _front({"model-index": [_index(name, measured)]} if measured else {}),
        f"# {name.rpartition('/')[2]}\n\nTwo pictures in, {ability} out.\n",
        f"**Architecture.** {settings.architecture}: {vision.backbone}, {vision.intra} blocks on one picture and "
        f"{vision.inter} on both, {height}x{width} pixels, {settings.vocabulary.size} words. "
        f"{_size(folder)}\n",
        "**Training.** `recipe.yaml` holds the settings.\n" if (folder / "recipe.yaml").is_file() else "",
        _table([*measured, *_calibrated(folder)]),
        f'**Use.**\n\n```python\nimport spotchange\n\ncaptioner = spotchange.load("{address}")\n'
        'captioner.caption("before.png", "after.png")\n```\n',
    ]
    return "\n".join(part for part in parts if part)


def _front(more: Mapping[str, Any]) -> str:
    values = {
        "library_name": "spotchange",
        "pipeline_tag": "image-to-text",
        "tags": ["image-difference-captioning", "change-captioning"],
        **more,
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}---\n"


def _index(name: str, measured: list[tuple[str, str, float]]) -> dict[str, Any]:
    """The hub's own form of measured figures."""
    on: dict[str, list[dict[str, Any]]] = {}
    for where, what, value in measured:
        on.setdefault(where, []).append({"type": what, "value": round(value, 4)})
    return {
        "name": name.rpartition("/")[2],
        "results": [
            {"task": {"type": "image-to-text"}, "dataset": {"name": where, "type": where}, "metrics": metrics}
            for where, metrics in on.items()
        ],
    }


def _table(measured: list[tuple[str, str, float]]) -> str:
    if not measured:
        return "**Figures.** None were measured.\n"
    rows = "".join(f"| {where} | {what} | {_readable(what, value)} |\n" for where, what, value in measured)
    return f"{FIGURES}\n\n| measured on | what | value |\n|---|---|---|\n{rows}"


def _readable(what: str, value: float) -> str:
    """Caption metrics times 100, as in papers and in every table."""
    from spotchange.metrics import METRICS  # not on the way to a caption

    return f"{100 * value:.1f}" if what in METRICS else f"{value:.4f}"


def _size(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
    return f"{size / 2**20:.1f} MiB of weights."


def _calibrated(folder: Path) -> list[tuple[str, str, float]]:
    if not (folder / "calibration.json").is_file():
        return []
    reports = read_json(folder, "calibration.json").get("reports", {})
    return [
        (f"{where} ({report['pairs']:,} pairs)", what.replace("_", " "), float(report[what]))
        for where, report in reports.items()
        for what in ("change_accuracy", "expected_calibration_error")
        if isinstance(report.get(what), int | float)
    ]


def _evaluated(path: Path) -> list[tuple[str, str, float]]:
    """Figures of the first system of an evaluation."""
    try:
        values = load_json(read_input(path))
        system = values["systems"][0]
        where = f"{values['data_set']} {values['split']} ({values['pairs']:,} pairs)"
        scores = {**system["corpus"], **system["beyond"]}
        return [(where, what, float(value)) for what, value in scores.items() if isinstance(value, int | float)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"{path} holds no evaluation: {type(error).__name__} {error}", hint="spotchange evaluate ... --json > FILE"
        ) from error
