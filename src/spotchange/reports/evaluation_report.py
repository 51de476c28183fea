"""An evaluation as one page that needs nothing else: tables, plots, and pairs to look at."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template

from PIL import Image

from spotchange.charts import confusion_table, grouped_bars, histogram
from spotchange.evaluation import Evaluation
from spotchange.evaluation.published import CAVEAT
from spotchange.files import write_text
from spotchange.images import read_image
from spotchange.reports.tables import Table, tables_of

EXAMPLES = 6  # pairs shown of the best, the median and the worst
IMAGE_SIDE = 320
JUDGED_BY = "CIDEr-D"


def write_report(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write the page, all or nothing."""
    write_text(path, report_html(evaluation))


def report_html(evaluation: Evaluation) -> str:
    """The page as text."""
    names = " against ".join(system.name for system in evaluation.systems)
    page = Template(resources.files("spotchange.reports").joinpath("report.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(f"{names} on {evaluation.data_set} ({evaluation.split})"),
        lead=escape(f"{len(evaluation.rows)} pairs. Floor in every table: {evaluation.constant_caption}."),
        notes=_notes(evaluation.notes),
        tables="\n".join(_table(table) for table in tables_of(evaluation)),
        plots="\n".join(_plots(evaluation)),
        examples=_examples(evaluation),
        signatures=_signatures(evaluation),
    )


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="card"><ul class="notes">{lines}</ul></div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    lines = "".join(
        f'<tr class="{line.look}">{"".join(f"<td>{escape(cell)}</td>" for cell in line.cells)}</tr>'
        for line in table.lines
    )
    return (
        f"<h2>{escape(table.title)}</h2>"
        f'<div class="card"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _plots(evaluation: Evaluation) -> list[str]:
    shown = [*evaluation.systems, evaluation.constant]
    kinds = list(evaluation.systems[0].by_type)
    cards = []
    if kinds:
        series = {each.name: [100 * each.by_type[kind].captions[JUDGED_BY] for kind in kinds] for each in shown}
        cards.append(_card(f"{JUDGED_BY} by change type", grouped_bars(kinds, series, unit="percent")))
    for number, system in enumerate(evaluation.systems):
        scores = [item[JUDGED_BY] for item in system.items.values()]
        top = min(10, max(1, math.ceil(max(scores))))
        drawing = histogram(scores, bins=20, top=top, unit=f"{JUDGED_BY} of a pair (10 is perfect)", color=number)
        cards.append(_card(f"{JUDGED_BY} of single pairs: {system.name}", drawing))
        if system.confusion:
            cards.append(_card(f"Change types: {system.name}", confusion_table(system.confusion)))
    return cards


def _card(title: str, content: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{content}</div>'


def _examples(evaluation: Evaluation) -> str:
    order = ranked_rows(evaluation)
    many = min(EXAMPLES, len(order))
    middle = max(0, len(order) // 2 - many // 2)
    parts = []
    for title, numbers in (
        ("Best pairs", order[:many]),
        ("Median pairs", order[middle : middle + many]),
        ("Worst pairs", order[::-1][:many]),
    ):
        pairs = "\n".join(_pair(evaluation, number) for number in numbers)
        parts.append(f'<h2>{title} by {JUDGED_BY}</h2>\n<div class="pairs">\n{pairs}\n</div>')
    return "\n".join(parts)


def ranked_rows(evaluation: Evaluation) -> list[int]:
    """Row numbers from the first system's best pair to its worst; ties in an order that means nothing."""
    items = evaluation.systems[0].items

    def key(number: int) -> tuple[float, str]:
        name = evaluation.rows[number].id
        return -items[name][JUDGED_BY], hashlib.sha256(name.encode()).hexdigest()

    return sorted(range(len(evaluation.rows)), key=key)


def _pair(evaluation: Evaluation, number: int) -> str:
    row = evaluation.rows[number]
    said = []
    for system in evaluation.systems:
        label = f"{escape(system.name)}: " if len(evaluation.systems) > 1 else ""
        score = system.items[row.id][JUDGED_BY]
        caption = escape(system.answered.outputs[number].caption) or "<em>(empty)</em>"
        said.append(f'<p class="said">{label}{caption} <small>{score:.2f}</small></p>')
    references = "".join(f"<li>{escape(text)}</li>" for text in row.captions)
    kind = f" · {escape(row.change_type)}" if row.change_type else ""
    images = _image(row.before_path, "before") + _image(row.after_path, "after")
    return (
        f'<div class="pair"><div class="pictures">{images}</div>'
        f'<p class="id">{escape(row.id)}{kind}</p>{"".join(said)}<ul>{references}</ul></div>'
    )


def _image(path: os.PathLike[str], side: str) -> str:
    image = read_image(path)
    image.thumbnail((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.LANCZOS)
    packed = io.BytesIO()
    image.save(packed, "JPEG", quality=82)
    data = base64.b64encode(packed.getvalue()).decode("ascii")
    return f'<img alt="{side}" src="data:image/jpeg;base64,{data}">'


def _signatures(evaluation: Evaluation) -> str:
    lines = [f"<p><code>{escape(system.signature)}</code></p>" for system in evaluation.systems]
    if evaluation.published:
        sources = ", ".join(dict.fromkeys(row.source for row in evaluation.published))
        lines.append(f"<p>{escape(CAVEAT)} ({escape(sources)}).</p>")
    return "".join(lines)
