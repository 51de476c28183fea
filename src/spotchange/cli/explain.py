"""`spotchange models attention` and `align`: where a model looks, and where its words come from, as images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spotchange.cli.device import Device
from spotchange.cli.output import check_result_image, print_written

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from spotchange.models.weights.folder import LoadedModel


def attention(
    before: Annotated[Path, typer.Argument(help="The image before.")],
    after: Annotated[Path, typer.Argument(help="The image after.")],
    out: Annotated[Path, typer.Option(help="PNG to write.")],
    model: Annotated[str, typer.Option(help="A model folder, or 'bundled'.")] = "bundled",
    reference: Annotated[list[str] | None, typer.Option(help="A true sentence to print too; may be repeated.")] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Draw where the class tokens look, before and after the images meet."""
    check_result_image("--out", out, inputs=(before, after), suffixes=(".png",))

    from spotchange.models.explain.attention import attention_figure, attention_maps
    from spotchange.models.interface import DecodingOptions

    images, loaded, inputs = _read(before, after, model, device)
    maps = attention_maps(loaded.model, inputs[0], inputs[1])
    caption = None
    if loaded.settings.captioner is not None:
        import torch

        network: Any = loaded.model
        with torch.inference_mode():
            generated = network.generate(network.encode(*inputs), DecodingOptions())
        caption = loaded.decode(generated.ids[0, 0].tolist())
    figure = attention_figure(images[0], images[1], maps, caption=caption, references=reference or [])
    _save(figure, out)
    print_written(out, as_json, caption=caption)


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

    from spotchange.models.explain.attention import alignment_figure, word_alignment

    images, loaded, inputs = _read(before, after, model, device)
    ids, maps = word_alignment(loaded.model, inputs[0], inputs[1])
    words = [loaded.decode([word]) for word in ids]
    figure = alignment_figure(images[0], images[1], words, maps, caption=loaded.decode(ids))
    _save(figure, out)
    print_written(out, as_json, caption=loaded.decode(ids), words=words)


def _read(
    before: Path, after: Path, model: str, device: str
) -> tuple[tuple[Image.Image, Image.Image], LoadedModel, list[Tensor]]:
    """Both images, the model, and the images as it takes them."""
    from spotchange.answering import model_folder
    from spotchange.answering.runtimes.torch import choose_device
    from spotchange.images import read_pair
    from spotchange.models.weights.folder import load_model

    images = read_pair(before, after)
    loaded = load_model(model_folder(model), device=choose_device(device))
    return images, loaded, [loaded.preprocess([image]) for image in images]


def _save(figure: Image.Image, out: Path) -> None:
    from spotchange.files import atomic_path

    with atomic_path(out) as temporary:
        figure.save(temporary, format="PNG")
