"""Small drawings for reports, as SVG text: bars side by side, a histogram, reliability, a confusion table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

COLORS = ("#2563a8", "#c2571a", "#9aa3ad")  # system, other system, constant
_LEFT, _TOP, _BOTTOM = 46, 26, 46
_PLOT_HEIGHT = 170
_LINE = 12  # of a name under the bars


def grouped_bars(groups: Sequence[str], series: Mapping[str, Sequence[float | None]], *, unit: str) -> str:
    """Bars for each group side by side, one colour a series.

    Args:
        groups: names under the bars, a word a line.
        series: values by name of the series, one for each group; where it is None there is no bar.
        unit: what the axis counts.
    """
    top = _round_up(max((value for values in series.values() for value in values if value is not None), default=0))
    words = [group.split() for group in groups]
    widest = max((_width(word) for each in words for word in each), default=0)
    width_of_group = max(56, 22 * len(series) + 18, widest + 8)
    legend_width = sum(26 + _width(name) for name in series)
    width = _LEFT + max(width_of_group * len(groups), legend_width) + 10
    below = _LINE * (max(map(len, words), default=1) - 1)
    parts = [_axis(top, width, unit)]
    for place, group in enumerate(groups):
        start = _LEFT + place * width_of_group
        bar = (width_of_group - 14) / len(series)
        for number, (name, values) in enumerate(series.items()):
            value, x = values[place], start + 7 + number * bar
            if value is None:
                continue
            label = f"{name}, {group}: {value:.1f}"
            parts.append(_bar(x, bar - 2, value / top, COLORS[number % len(COLORS)], label))
            parts.append(_text(x + bar / 2 - 1, _y(value / top) - 3, f"{value:.0f}", size=9))
        for line, word in enumerate(words[place]):
            parts.append(_text(start + width_of_group / 2, _TOP + _PLOT_HEIGHT + 15 + _LINE * line, word))
    return _svg(width, parts + _legend(list(series), below=below), below=below)


def histogram(values: Sequence[float], *, bins: int, top: float, unit: str, color: int = 0) -> str:
    """How many items fall into each step from 0 to `top`."""
    counts, edges = np.histogram(np.clip(values, 0, top), bins=bins, range=(0, top))
    most = _round_up(float(counts.max()))
    step = 26
    width = _LEFT + step * bins + 20
    parts = [_axis(most, width, "pairs")]
    for place, count in enumerate(counts.tolist()):
        x = _LEFT + 4 + place * step
        label = f"{edges[place]:g} to {edges[place + 1]:g}: {count}"
        parts.append(_bar(x, step - 3, count / most, COLORS[color], label))
        if place % 2 == 0:
            parts.append(_text(x, _TOP + _PLOT_HEIGHT + 15, f"{edges[place]:g}"))
    parts.append(_text(_LEFT + 4 + bins * step, _TOP + _PLOT_HEIGHT + 15, f"{top:g}"))
    parts.append(_text(_LEFT + bins * step / 2, _TOP + _PLOT_HEIGHT + 34, unit))
    return _svg(width, parts)


def reliability(series: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """How often pairs of a score really changed; points on the dashed line are rightly sure. Larger points, more pairs.

    Args:
        series: by name, bins with their mean `score`, the share `changed` and how many `pairs`.
    """
    side = 300
    width = _LEFT + side + 20
    ends = f'x1="{_LEFT}" y1="{_y(0):.1f}" x2="{_LEFT + side}" y2="{_y(1):.1f}"'
    parts = [_axis(1.0, width, "share that changed"), f'<line {ends} stroke="#9aa3ad" stroke-dasharray="4 4"/>']
    for number, (name, bins) in enumerate(series.items()):
        for each in bins:
            x, y = _LEFT + side * each["score"], _y(each["changed"])
            label = f"{name}: score {each['score']:.3f}, changed {each['changed']:.3f}, {each['pairs']:g} pairs"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + 2 * np.log10(each["pairs"]):.1f}" fill-opacity="0.7" '
                f'fill="{COLORS[number % len(COLORS)]}"><title>{escape(label)}</title></circle>'
            )
    for step in range(5):
        parts.append(_text(_LEFT + side * step / 4, _TOP + _PLOT_HEIGHT + 15, f"{step / 4:g}"))
    return _svg(width, parts + _legend(list(series)))


def confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> str:
    """True change types down, predicted ones across; darker cells hold more of their line."""
    predicted = list(dict.fromkeys([*confusion, *(name for line in confusion.values() for name in line)]))
    head = "".join(f"<th>{escape(name)}</th>" for name in predicted)
    lines = []
    for truth, line in confusion.items():
        total = sum(line.values())
        cells = []
        for name in predicted:
            share = line.get(name, 0) / total
            ink = "#fff" if share > 0.55 else "#1c2733"
            cells.append(f'<td style="background:rgba(37,99,168,{share:.2f});color:{ink}">{line.get(name, 0)}</td>')
        lines.append(f"<tr><th>{escape(truth)}</th>{''.join(cells)}</tr>")
    return f'<table class="confusion"><tr><th>true \\ predicted</th>{head}</tr>{"".join(lines)}</table>'


def _round_up(value: float) -> float:
    """The next number of the kind that axes end with."""
    if value <= 0:
        return 1.0
    scale = 10.0 ** np.floor(np.log10(value))
    return float(next(step * scale for step in (1, 2, 3, 4, 6, 8, 10) if step * scale >= value * 0.9999))


def _y(share: float) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - share)


def _bar(x: float, width: float, share: float, color: str, label: str) -> str:
    height = _PLOT_HEIGHT * max(share, 0)
    return (
        f'<rect x="{x:.1f}" y="{_y(max(share, 0)):.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _axis(top: float, width: float, unit: str) -> str:
    parts = [_text(_LEFT, _TOP - 14, unit, anchor="start", size=10)]
    for step in range(5):
        share = step / 4
        parts.append(
            f'<line x1="{_LEFT}" x2="{width - 6:.0f}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" stroke="#d9dee3"/>'
        )
        parts.append(_text(_LEFT - 5, _y(share) + 4, f"{top * share:g}", anchor="end", size=10))
    return "".join(parts)


def _width(text: str) -> float:
    """About how many pixels a name takes."""
    return sum(8.0 if letter.isupper() or letter == "+" else 6.0 for letter in text)


def _legend(names: Sequence[str], *, below: float = 0) -> list[str]:
    parts = []
    x = float(_LEFT)
    for number, name in enumerate(names):
        y = _TOP + _PLOT_HEIGHT + 28 + below
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="10" height="10" fill="{COLORS[number % len(COLORS)]}"/>')
        parts.append(_text(x + 14, y + 9, name, anchor="start"))
        x += 26 + _width(name)
    return parts


def _svg(width: float, parts: Sequence[str], *, below: float = 0) -> str:
    height = _TOP + _PLOT_HEIGHT + _BOTTOM + below
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" style="max-width:100%;height:auto" role="img" font-family="inherit" fill="#1c2733">'
        f"{''.join(parts)}</svg>"
    )
