"""`spotchange models align`: where each word of IDC-PCL's caption comes from, as an image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.device import Device
from spotchange.cli.output import check_result_image, print_json, print_line


def align(
    before: Annotated[Path, typer.Argument(help="The image before.")],
    after: Annotated[Path, typer.Argument(help="The image after.")],
    model: Annotated[str, typer.Option(help="A model folder of idc-pcl.")],
    out: Annotated[Path, typer.Option(help="PNG to write.")],
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Draw, for each word of the caption, the attention of the cross-modal transformer over both images."""
    check_result_image("--out", out, inputs=(before, after), suffixes=(".png",))

    from spotchange.answering import model_folder
    from spotchange.answering.runtimes.torch import choose_device
    from spotchange.files import atomic_path
    from spotchange.images import read_pair
    from spotchange.models.explain.attention import alignment_figure, word_alignment
    from spotchange.models.weights.folder import load_model

    images = read_pair(before, after)
    loaded = load_model(model_folder(model), device=choose_device(device))
    seen = [loaded.preprocess([image]) for image in images]
    ids, maps = word_alignment(loaded.model, seen[0], seen[1])
    words = [loaded.decode([word]) for word in ids]
    figure = alignment_figure(images[0], images[1], words, maps, caption=loaded.decode(ids))
    with atomic_path(out) as temporary:
        figure.save(temporary, format="PNG")
    if as_json:
        print_json({"out": str(out), "caption": loaded.decode(ids), "words": words})
    else:
        print_line(str(out))
