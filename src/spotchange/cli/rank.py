"""`spotchange rank`: which of many sentences fits a pair of images best, or which of many pairs a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spotchange.cli.device import Device
from spotchange.cli.output import notes, print_json, print_line
from spotchange.errors import InputError
from spotchange.files import read_input


def rank(
    before: Annotated[Path | None, typer.Argument(help="The image before.")] = None,
    after: Annotated[Path | None, typer.Argument(help="The image after.")] = None,
    captions: Annotated[Path | None, typer.Option(help="Sentences to rank for the pair, one a line.")] = None,
    text: Annotated[str | None, typer.Option(help="A sentence to rank pairs for.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Manifest (JSON lines) of the pairs to rank for --text.")] = None,
    model: Annotated[str, typer.Option(help="A model folder whose model was adapted, or 'bundled'.")] = "bundled",
    top: Annotated[int, typer.Option(min=1, help="How many to print.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Rank sentences for a pair of images, or pairs of images for a sentence."""
    ranked: list[dict[str, Any]]
    if before is not None and after is not None and captions is not None and text is None and pairs is None:
        ranked = _captions_for_pair(before, after, _sentences(captions), model, device)
    elif text is not None and pairs is not None and before is None and captions is None:
        ranked = _pairs_for_text(text, pairs, model, device)
    else:
        raise InputError(
            "give two images and --captions, or --text and --pairs",
            hint="spotchange rank before.png after.png --captions sentences.txt",
        )
    for place, line in enumerate(ranked[:top], start=1):
        if as_json:
            print_json({"rank": place, **line})
        else:
            print_line(f"{place}  {line['similarity']:.3f}  {line.get('caption') or line['id']}")


def _captions_for_pair(
    before: Path, after: Path, sentences: list[str], model: str, device: str
) -> list[dict[str, Any]]:
    from spotchange.answering import load
    from spotchange.evaluation import rank_captions, reading_notes

    captioner = load(model, device=device, runtime="torch")
    found = rank_captions(captioner, (before, after), sentences)
    _tell(reading_notes(captioner, sentences))
    return [{"caption": text, "similarity": round(similarity, 4)} for text, similarity in found]


def _pairs_for_text(text: str, manifest: Path, model: str, device: str) -> list[dict[str, Any]]:
    from spotchange.answering import load
    from spotchange.answering.bulk.one_machine import pairs_from_manifest
    from spotchange.evaluation import rank_pairs, reading_notes

    named = pairs_from_manifest(manifest)
    if not named:
        raise InputError(f"{manifest} holds no pair")
    captioner = load(model, device=device, runtime="torch")
    found = rank_pairs(captioner, text, [(each.before, each.after) for each in named])
    _tell(reading_notes(captioner, [text]))
    return [{"id": named[place].id, "similarity": round(similarity, 4)} for place, similarity in found]


def _tell(found: list[str]) -> None:
    for note in found:
        notes().print("note:", note, markup=False, soft_wrap=True)


def _sentences(path: Path) -> list[str]:
    """Lines that hold anything, each once."""
    try:
        lines = read_input(path).splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    sentences = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not sentences:
        raise InputError(f"{path} holds no sentence", hint="one sentence a line")
    return sentences
