"""Many pairs as one HTML file that needs nothing else: `compare --report` and the page's batch report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template
from urllib.parse import quote

from spotchange import __version__
from spotchange.regression import ComparedFile, FolderComparison
from spotchange.reports.pair_view import view_styles
from spotchange.results import CaptionResult

QUIET = ("identical", "unchanged")  # listed after what needs attention, folded away


@dataclass(frozen=True, kw_only=True)
class PairCard:
    """What the report shows of one pair."""

    name: str
    status: str
    result: CaptionResult | None
    error: str | None
    view: str  # from `pair_view`; empty where there is nothing to see

    @classmethod
    def of(cls, compared: ComparedFile) -> PairCard:
        """The card of a compared file."""
        return cls(
            name=compared.name,
            status=compared.status,
            result=compared.result,
            error=compared.error,
            view=compared.view,
        )


def comparison_html(comparison: FolderComparison) -> str:
    """The report of two folders."""
    title = f"{comparison.before.name or comparison.before} → {comparison.after.name or comparison.after}"
    return pairs_html(title, [PairCard.of(each) for each in comparison.files])


def pairs_html(title: str, cards: Sequence[PairCard]) -> str:
    """A page of cards; those that need attention stand open, the others are folded."""
    page = Template(resources.files("spotchange.reports").joinpath("pair_report.html").read_text(encoding="utf-8"))
    counts = Counter(card.status for card in cards)
    loud = [card for card in cards if card.status not in QUIET]
    parts = ["\n".join(_card(card) for card in loud) or '<p class="calm">Nothing needs your attention.</p>']
    for status, words in (
        ("unchanged", "other pixels, within the tolerances"),
        ("identical", "every pixel is the same"),
    ):
        quiet = [card for card in cards if card.status == status]
        if quiet:
            parts.append(_folded(f"{len(quiet)} {status}: {words}", quiet))
    return page.substitute(
        title=escape(title),
        counts=" ".join(
            f'<span class="sc-verdict sc-verdict-{status}">{count} {status}</span>' for status, count in counts.items()
        ),
        styles=view_styles(),
        cards="\n".join(parts),
        version=escape(__version__),
    )


def _folded(summary: str, cards: Sequence[PairCard]) -> str:
    shown = [_card(card) for card in cards if card.view]
    plain = "".join(f"<li>{escape(card.name)}</li>" for card in cards if not card.view)
    listed = f"<ul>{plain}</ul>" if plain else ""
    return f"<details><summary>{escape(summary)}</summary>{''.join(shown)}{listed}</details>"


def _card(card: PairCard) -> str:
    anchor = escape(quote(card.name))
    head = (
        f'<header><h2><a href="#{anchor}">{escape(card.name)}</a></h2>'
        f'<span class="sc-verdict sc-verdict-{card.status}">{card.status}</span>{_numbers(card.result)}'
    )
    return f'<article id="{anchor}" data-status="{card.status}">{head}</header>{_words(card)}{card.view}</article>'


def _numbers(result: CaptionResult | None) -> str:
    if result is None:
        return ""
    if result.diff_pixels is None or result.diff_ratio is None:
        return f'<span class="score">change score {result.change_score:.2f}</span>'
    return (
        f'<span class="score">{result.diff_pixels:,} pixels differ ({100 * result.diff_ratio:.3g} %), '
        f"by at most {result.largest_difference:.3g}; preset {escape(result.preset or '')}</span>"
    )


def _words(card: PairCard) -> str:
    if card.error is not None:
        return f'<p class="said">{escape(card.error)}</p>'
    if card.result is None:
        what = "This picture is only in the first folder." if card.status == "missing" else ""
        what = what or ("This picture is only in the second folder." if card.status == "new" else "")
        return f'<p class="said">{what}</p>' if what else ""
    warnings = "".join(f'<p class="warning">{escape(warning)}</p>' for warning in card.result.warnings)
    if len(card.result.findings) > 1:
        items = "".join(f"<li>{escape(each.sentence)}</li>" for each in card.result.findings)
        what = f"All {len(card.result.findings)} findings"
    else:
        items = "".join(
            f"<li>{region.image}: x {region.box[0]}, y {region.box[1]}, {region.box[2]}×{region.box[3]} pixels "
            f"<small>score {region.score:.2f}</small></li>"
            for region in card.result.regions
        )
        what = "Boxes"
    places = f'<details class="boxes"><summary>{what}</summary><ul>{items}</ul></details>' if items else ""
    every = "".join(f"<li>{escape(each)}</li>" for each in card.result.differences)
    listed = f'<ul class="differences">{every}</ul>' if every else ""
    return f'<p class="said">{escape(card.result.caption)}</p>{listed}{warnings}{places}'
