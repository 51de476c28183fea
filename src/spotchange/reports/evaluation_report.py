"""An evaluation as one page that needs nothing else: tables, plots, and pairs to look at."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
from html import escape

from PIL import Image

from spotchange.charts import confusion_table, grouped_bars, histogram
from spotchange.evaluation import Evaluation
from spotchange.evaluation.published import CAVEAT
from spotchange.files import write_text
from spotchange.images import read_image
from spotchange.reports.page import card, report_page
from spotchange.reports.tables import tables_of

EXAMPLES = 6  # pairs shown of the best, the median and the worst
IMAGE_SIDE = 320
JUDGED_BY = "CIDEr-D"


def write_report(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write the page, all or nothing."""
    write_text(path, report_html(evaluation))


def report_html(evaluation: Evaluation) -> str:
    """The page as text."""
    names = " against ".join(system.name for system in evaluation.systems)
    return report_page(
        title=f"{names} on {evaluation.data_set} ({evaluation.split})",
        lead=f"{len(evaluation.rows)} pairs. Floor in every table: {evaluation.constant_caption}.",
        notes=evaluation.notes,
        tables=tables_of(evaluation),
        plots=_plots(evaluation),
        examples=_examples(evaluation),
        origin=_signatures(evaluation),
    )


def _plots(evaluation: Evaluation) -> list[str]:
    shown = [*evaluation.systems, evaluation.constant]
    kinds = list(evaluation.systems[0].by_type)
    cards = []
    if kinds:
        series = {each.name: [100 * each.by_type[kind].captions[JUDGED_BY] for kind in kinds] for each in shown}
        cards.append(card(f"{JUDGED_BY} by change type", grouped_bars(kinds, series, unit="percent")))
    for number, system in enumerate(evaluation.systems):
        scores = [100 * item[JUDGED_BY] for item in system.items.values()]
        top = 100 * min(10, max(1, math.ceil(max(scores) / 100)))
        unit = f"{JUDGED_BY} of a pair, in percent (1000 is perfect)"
        drawing = histogram(scores, bins=20, top=top, unit=unit, color=number)
        cards.append(card(f"{JUDGED_BY} of single pairs: {system.name}", drawing))
        if system.confusion:
            cards.append(card(f"Change types: {system.name}", confusion_table(system.confusion)))
    return cards


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
        said.append(f'<p class="said">{label}{caption} <small>{JUDGED_BY} {100 * score:.0f}</small></p>')
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
