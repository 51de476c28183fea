"""The second tab: many pairs from a zip file or two folders, a table, and what to take home."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from spotchange.answering import Answer
from spotchange.files import write_text
from spotchange.reports.pair_report import PairCard, pairs_html
from spotchange.reports.pair_view import pair_view, thumbnail
from spotchange.serving.api.problems import Problem
from spotchange.serving.page.answers import PageAnswers, message_html, problem_html, table_html
from spotchange.serving.page.inputs import files_input
from spotchange.serving.page.pair_files import PairFiles, pairs_of_folders, pairs_of_zip

HOW = (
    "Give a zip file with the folders before/ and after/, or choose two folders; "
    "pictures with the same name make a pair."
)
HEADER = ("Pair", "Before", "After", "Verdict", "What changed", "Score")
DOWNLOADS = "download-"
MOST_NAMED = 5  # pictures without a partner
REPORT_SIDE = 640  # pixels; a report of 200 pairs stays small enough to mail


def batch_tab(answers: PageAnswers) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="sc-small">{escape(HOW)} At most {answers.settings.max_page_pairs} pairs.</p>')
    with gr.Row(equal_height=True):
        archive = files_input("Zip file", name="zip", file_types=[".zip"])
        before = files_input("Folder before", name="folder-before", file_count="directory")
        after = files_input("Folder after", name="folder-after", file_count="directory")
    ask = gr.Button("What changed in each?", variant="primary", elem_id="ask-batch")
    with gr.Row():
        lines = gr.DownloadButton("Download JSONL", visible=False, elem_id="download-jsonl")
        report = gr.DownloadButton("Download report", visible=False, elem_id="download-report")
    answer = gr.HTML(message_html("The table appears here."), elem_id="batch-answer")
    ask.click(
        _look_at_all(answers),
        inputs=[archive, before, after],
        outputs=[answer, lines, report],
        api_visibility="private",
        concurrency_limit=2,
    )


Files = list[tuple[str, Path]]


def _look_at_all(answers: PageAnswers) -> Callable[..., tuple[Any, Any, Any]]:
    def look(
        archive: Files, before: Files, after: Files, progress: gr.Progress = gr.Progress()
    ) -> tuple[Any, Any, Any]:
        hidden = gr.update(visible=False)
        try:
            if archive:
                found = pairs_of_zip(archive[0][1], answers.settings)
            elif before or after:
                found = pairs_of_folders(before, after, answers.settings)
            else:
                return message_html(HOW), hidden, hidden
        except Problem as problem:
            return problem_html(problem), hidden, hidden
        told = [_one(answers, pair) for pair in progress.tqdm(found.pairs, desc="Looking", unit="pairs")]
        folder = _fresh_folder()
        write_text(
            folder / "results.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line, _, _ in told)
        )
        write_text(folder / "report.html", pairs_html("What changed", [card for _, card, _ in told]))
        return (
            _summary([card for _, card, _ in told])
            + _without_partner(found.alone)
            + table_html(HEADER, [row for _, _, row in told]),
            gr.update(value=str(folder / "results.jsonl"), visible=True),
            gr.update(value=str(folder / "report.html"), visible=True),
        )

    return look


def _one(answers: PageAnswers, pair: PairFiles) -> tuple[dict[str, Any], PairCard, list[str]]:
    """The line, the card and the row of one pair."""
    try:
        answer = answers.of_files(pair.read_before(), pair.read_after())
    except Problem as problem:
        card = PairCard(name=pair.id, status="failed", result=None, error=problem.detail, view="")
        row = [escape(pair.id), "", "", _verdict("failed"), escape(problem.detail), ""]
        return {"id": pair.id, "error": problem.detail}, card, row
    status = "changed" if answer.result.changed else "unchanged"
    view = pair_view(answer, side=REPORT_SIDE)
    card = PairCard(name=pair.id, status=status, result=answer.result, error=None, view=view)
    return {"id": pair.id, **answer.result.to_dict()}, card, _row(pair.id, status, answer)


def _row(name: str, status: str, answer: Answer) -> list[str]:
    result = answer.result
    return [
        escape(name),
        thumbnail(answer.before, f"{name} before"),
        thumbnail(answer.after, f"{name} after"),
        _verdict(status),
        escape(result.caption),
        f"{result.change_score:.2f}",
    ]


def _verdict(status: str) -> str:
    return f'<span class="sc-verdict sc-verdict-{status}">{status}</span>'


def _summary(cards: list[PairCard]) -> str:
    counts = {status: sum(card.status == status for card in cards) for status in ("changed", "unchanged", "failed")}
    words = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return f'<p class="sc-line"><b>{len(cards)} pairs</b> {words}</p>'


def _without_partner(alone: list[str]) -> str:
    if not alone:
        return ""
    listed = ", ".join(alone[:MOST_NAMED]) + (", ..." if len(alone) > MOST_NAMED else "")
    many = "1 picture has" if len(alone) == 1 else f"{len(alone)} pictures have"
    return f'<p class="sc-warning">{many} no partner: {escape(listed)}</p>'


def _fresh_folder() -> Path:
    """A place for downloads inside the server's temporary folder, which is swept."""
    return Path(tempfile.mkdtemp(prefix=DOWNLOADS))
