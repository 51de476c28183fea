"""`spotchange scenes`: the things that everyday images are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.help import PlainGroup
from spotchange.cli.output import notes, print_json, print_line

app = typer.Typer(
    cls=PlainGroup,
    help="Things and nouns of the everyday world.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Example: spotchange scenes nouns",
)


@app.command("nouns", epilog="Example: spotchange scenes nouns")
def nouns(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: noun to what it is a kind of.")] = False,
) -> None:
    """List the nouns that everyday sentences may use, as a tree."""
    from spotchange.everyday.language.nouns import everyday_nouns

    tree = everyday_nouns()
    if as_json:
        above = [None if parent < 0 else tree.names[parent] for parent in tree.parents]
        print_json(dict(zip(tree.names, above, strict=True)))
        return
    for number, name in enumerate(tree.names):
        print_line("  " * (tree.depth(number) - 1) + name)


@app.command("add-objects", epilog="Example: spotchange scenes add-objects cut-outs/ --library my-library")
def add_objects(
    folder: Annotated[Path, typer.Argument(help="RGBA cut-outs (PNG, WebP), named after what they show: mug_01.png.")],
    library: Annotated[Path, typer.Option(help="Library folder; made if it does not exist.")],
    backgrounds: Annotated[Path | None, typer.Option(help="Photos to paste things on.")] = None,
    split: Annotated[str, typer.Option(help="train or held-out.")] = "train",
    licence: Annotated[str, typer.Option(help="Written beside every thing.")] = "own",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was added as JSON.")] = False,
) -> None:
    """Add cut-outs of one's own to a library, for `generate --world everyday` and for training.

    A file whose noun is not in the tree of nouns (`spotchange scenes nouns`) is added as a thing without a name.
    """
    from spotchange.errors import InputError
    from spotchange.everyday import collecting
    from spotchange.locks import one_writer

    if split not in ("train", "held-out"):
        raise InputError(f"unknown split '{split}'", hint="use train or held-out")
    if backgrounds is not None and not backgrounds.is_dir():
        raise InputError(f"{backgrounds} is not a folder")
    with one_writer(library):
        added = collecting.add_objects(folder, library, split=split, licence=licence)
        photos = (
            0 if backgrounds is None else collecting.add_backgrounds(backgrounds, library, split=split, licence=licence)
        )
    if as_json:
        print_json({**vars(added), "unknown": list(added.unknown), "backgrounds": photos, "library": str(library)})
        return
    notes().print(f"{library}: {added.objects} things, {photos} backgrounds added", markup=False)
    if added.unknown:
        notes().print(f"without a noun of the tree: {', '.join(added.unknown[:5])}", markup=False)
