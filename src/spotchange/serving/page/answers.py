"""What the page's tabs share: asking the queue of pairs, and showing the answer as HTML."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape

from PIL import Image

from spotchange.answering import Answer, CaptionOptions, ImagePair
from spotchange.errors import ReplyError
from spotchange.reports.pair_view import marked_images, pair_view
from spotchange.serving.api.problems import Problem, no_place, no_reply
from spotchange.serving.api.uploads import check_image, read_checked_pair
from spotchange.serving.engine.queue import Batcher, NoPlaceError
from spotchange.serving.settings import ServerSettings

LONGEST_WAIT = 120.0  # seconds
UNEXPECTED = "Something went wrong here; the server's log says what."
log = logging.getLogger(__name__)


class PageAnswers:
    """Asks the batching thread the way the API does: same places, same limits, same messages."""

    def __init__(self, batcher: Batcher, settings: ServerSettings) -> None:
        self.settings = settings
        self._batcher = batcher
        self._pixels_left = 2 * settings.max_pixels  # one pair of the largest; beside what the API holds
        self._freed = threading.Condition()

    def of_files(self, before: bytes, after: bytes) -> Answer:
        """Answer two encoded images.

        Raises:
            Problem: says which image is refused and why, or that the server is full.
        """
        pixels = check_image(before, "before", self.settings) + check_image(after, "after", self.settings)
        try:
            with self._batcher.place(), self._pixels(pixels):
                return self._ask(read_checked_pair(before, after, self.settings))
        except NoPlaceError:
            raise no_place() from None

    def of_images(self, before: Image.Image, after: Image.Image) -> Answer:
        """Answer two images made here."""
        try:
            with self._batcher.place():
                return self._ask(ImagePair.of(before, after))
        except NoPlaceError:
            raise no_place() from None

    @contextmanager
    def _pixels(self, count: int) -> Iterator[None]:
        """Hold memory for so many pixels; waits until other visitors have given theirs back."""
        with self._freed:
            if not self._freed.wait_for(lambda: self._pixels_left >= count, timeout=LONGEST_WAIT):
                raise NoPlaceError
            self._pixels_left -= count
        try:
            yield
        finally:
            with self._freed:
                self._pixels_left += count
                self._freed.notify_all()

    def _ask(self, pair: ImagePair) -> Answer:
        try:
            return self._batcher.submit(pair, CaptionOptions()).result(timeout=LONGEST_WAIT)
        except NoPlaceError:
            raise
        except ReplyError as error:
            raise no_reply(error) from None
        except Exception as error:
            log.error("a pair from the page failed", exc_info=error)
            raise Problem(500, "", UNEXPECTED) from None


def answer_html(answer: Answer, *, extra: str = "") -> str:
    """The sentence large, the verdict, the slider, the marked images, alternatives, time."""
    result = answer.result
    word = "changed" if result.changed else "unchanged"
    warnings = "".join(f'<p class="sc-warning">{escape(text)}</p>' for text in result.warnings)
    kind = f" · {escape(result.change_type)}" if result.changed and result.change_type else ""
    percent = round(100 * result.change_score)
    return (
        '<div class="sc-answer">'
        f'<p class="sc-line"><span class="sc-verdict sc-verdict-{word}">{word}{kind}</span>'
        f'<span class="sc-score">change score {result.change_score:.2f}'
        f'<span class="sc-bar" aria-hidden="true"><i style="width:{percent}%"></i></span></span></p>'
        f'<p class="sc-sentence">{escape(_sentence(result.caption))}</p>{_differences(answer)}{warnings}{extra}'
        f"{pair_view(answer)}"
        f"<h2>Where</h2>{marked_images(answer)}"
        f"{_alternatives(answer)}"
        f'<p class="sc-small">{_how(answer)}</p></div>'
    )


def message_html(text: str, *, kind: str = "hint") -> str:
    """A hint, or an error a screen reader announces at once."""
    role = ' role="alert"' if kind == "error" else ""
    return f'<div class="sc-message sc-{kind}"{role}><p>{escape(_sentence(text))}</p></div>'


def problem_html(problem: Problem) -> str:
    """What a person reads about a refused image."""
    return message_html(problem.detail, kind="error")


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are HTML already."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = []
    for row in rows:
        cells = zip(header, row, strict=True)
        lines.append("".join(f'<td data-name="{escape(name)}">{cell}</td>' for name, cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f'<table class="sc-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="sc-scroll">{table}</div>'


def _differences(answer: Answer) -> str:
    items = "".join(f"<li>{escape(_sentence(each))}</li>" for each in answer.result.differences)
    return f"<ul>{items}</ul>" if items else ""


def _alternatives(answer: Answer) -> str:
    if not answer.result.alternatives:
        return ""
    items = "".join(
        f"<li>{escape(_sentence(each.text))} "
        f'<small title="mean log probability per token">{each.score:.2f}</small></li>'
        for each in answer.result.alternatives
    )
    return f"<h2>Other ways the model put it</h2><ol>{items}</ol>"


_BY = {
    "pixels": "by comparing pixels",
    "recognition": "by comparing the photos, with the names of everyday things that two recognisers are sure of,",
}


def _how(answer: Answer) -> str:
    result = answer.result
    by = _BY.get(result.source, f"by the model {escape(result.model)}")
    familiar = ""
    if result.familiarity is not None:
        meaning = "share of the pairs the model knows that are less usual than this one"
        familiar = f', <span title="{meaning}">familiarity {result.familiarity:.2f}</span>'
    return f"Answered {by} in {1000 * result.seconds:.0f} ms{familiar}."


def _sentence(text: str) -> str:
    """Captions come in lower case; on a page a sentence begins with a capital."""
    return text[:1].upper() + text[1:]
