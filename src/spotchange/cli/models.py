"""`spotchange models`: which there are, what is in one, weights in, to the hub and from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spotchange.cli.calibrate import calibrate
from spotchange.cli.explain import align, attention
from spotchange.cli.export import export
from spotchange.cli.help import PlainGroup
from spotchange.cli.output import notes, print_json, print_line, print_written, tables
from spotchange.errors import InputError

if TYPE_CHECKING:
    from spotchange.config.model import ModelSettings

app = typer.Typer(
    cls=PlainGroup,
    help="List, inspect, import, calibrate, export, push and pull models.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Example: spotchange models show bundled",
)


@app.command("list", epilog="Example: spotchange models list")
def list_models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the architectures that recipes can name as `model: {preset: NAME}`."""
    from spotchange.config.model import ModelSettings
    from spotchange.config.presets import PRESETS

    rows = {name: ModelSettings.model_validate({"preset": name}) for name in PRESETS}
    if as_json:
        print_json({name: settings.model_dump(mode="json") for name, settings in rows.items()})
        return
    from rich.table import Table

    table = Table("preset", "pictures", "backbone", "intra + inter", "captioner", box=None)
    for name, settings in rows.items():
        table.add_row(name, *_in_words(settings))
    tables().print(table)


@app.command(epilog="Example: spotchange models show bundled")
def show(
    model: Annotated[str, typer.Argument(help="A model folder, or 'bundled'.")] = "bundled",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a model folder holds: architecture, sizes, words, kinds of change."""
    from spotchange.answering import model_folder
    from spotchange.models.weights.folder import load_model

    folder = model_folder(model)
    loaded = load_model(folder)
    parts = {
        name: sum(parameter.numel() for parameter in part.parameters()) for name, part in loaded.model.named_children()
    }
    facts: dict[str, Any] = {
        "folder": str(folder),
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "parts": parts,
        "bytes_on_disk": sum(path.stat().st_size for path in folder.glob("model*.safetensors")),
        "settings": loaded.settings.model_dump(mode="json"),
    }
    if as_json:
        print_json(facts)
        return
    images, backbone, blocks, captioner = _in_words(loaded.settings)
    lines = {
        "folder": str(folder),
        "architecture": loaded.settings.architecture,
        "pictures": images,
        "backbone": backbone,
        "intra + inter": blocks,
        "captioner": captioner,
        "words": str(loaded.settings.vocabulary.size),
        "kinds of change": ", ".join(loaded.change_types) if loaded.settings.heads.change else "-",
        "ranks captions": "yes" if loaded.settings.text.encoder else "no",
        "parameters": f"{facts['parameters']:,} ({', '.join(f'{name} {count:,}' for name, count in parts.items())})",
        "on disk": f"{facts['bytes_on_disk'] / 2**20:.1f} MiB",
    }
    for name, text in lines.items():
        print_line(f"{name:16}{text}")


@app.command("import", epilog="Example: spotchange models import pytorch_model.bin --out models/clip4idc")
def import_weights(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A checkpoint file, a CLIP folder or a hub name.")],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    activation: Annotated[str | None, typer.Option(help="gelu or quick_gelu, if the file does not say.")] = None,
    n_inter: Annotated[int | None, typer.Option(min=0, help="Blocks that see both images; a quarter.")] = None,
    image_size: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH to use the model with.")] = None,
    resize: Annotated[str, typer.Option(help="squash: whole images; crop: their middle, as CLIP.")] = "squash",
    system: Annotated[
        str | None, typer.Option(help="FILE is a published checkpoint of this system: duda, scorer-cbr, ...")
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--size", metavar="NAME=N", help="Of --system, where not as published.")
    ] = None,
    words: Annotated[Path | None, typer.Option(help="The dictionary of --system or IDC-PCL.")] = None,
    resnet: Annotated[str | None, typer.Option(help="The ResNet of --system or IDC-PCL: a folder or name.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads of IDC-PCL; 8, as published.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that --out holds.")] = False,
    device: Annotated[str | None, typer.Option(help="Try the new folder once on auto, cpu, cuda or cuda:N.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Turn CLIP weights, or a published checkpoint (CLIP4IDC, IDC-PCL, a baseline system), into a model folder."""
    from spotchange.models.weights.description import check_replaceable

    check_replaceable(out, force=force)
    if activation not in (None, "gelu", "quick_gelu"):
        raise InputError(f"unknown activation '{activation}': choose gelu or quick_gelu")
    size = None if image_size is None else _parse_size(image_size)

    from spotchange.models.weights.published.importing import import_model, save_imported

    if system is not None:
        from spotchange.models.baselines.imports import import_baseline

        if words is None or resnet is None:
            raise InputError("--system needs --words FILE and --resnet FOLDER too")
        whole = size or (224, 224)
        imported = import_baseline(
            Path(source), system=system, words=words, resnet=resnet, image_size=whole, sizes=_parse_sizes(sizes or [])
        )
    else:
        if sizes:
            raise InputError("--size belongs to --system")
        imported = import_model(
            source,
            activation=activation,
            n_inter=n_inter,
            image_size=size,
            resize=resize,
            words=words,
            resnet=resnet,
            heads=heads,
        )
    save_imported(imported, out)
    captions = system is not None or imported.settings.captioner is not None
    if device is not None:
        _try(out, device)
    can = "captions" if captions else "ranks captions; train a caption stage on top"
    if imported.settings.vision.backbone == "features":
        can = "captions from grid features; give --resnet for pictures"
    notes().print(f"imported: {can}", markup=False)
    print_written(out, as_json, captions=captions)


def _parse_sizes(given: list[str]) -> dict[str, int]:
    sizes = {}
    for each in given:
        name, _, number = each.partition("=")
        if not number.isdecimal():
            raise InputError(f"--size wants NAME=N, not '{each}'")
        sizes[name] = int(number)
    return sizes


def _try(folder: Path, device: str) -> None:
    """One pair through the encoder, so that a model that cannot compute there is found now."""
    import torch
    from PIL import Image

    from spotchange.answering.runtimes.torch import choose_device
    from spotchange.models.weights.folder import load_model

    loaded = load_model(folder, device=choose_device(device))
    network: Any = loaded.model
    seen = [loaded.preprocess([Image.new("RGB", (64, 64), color)]) for color in ("gray", "red")]
    with torch.inference_mode():
        network.encode(*seen)


@app.command(epilog="Example: spotchange models pull ORGANISATION/NAME --out models/theirs")
def pull(
    name: Annotated[str, typer.Argument(metavar="ORGANISATION/NAME", help="A model on the hub; @REVISION may follow.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to copy it to; none: it stays in the hub's cache.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that --out holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print where it lies as JSON.")] = False,
) -> None:
    """Fetch a model of ours from the hub (HF_ENDPOINT, HF_TOKEN and HF_HOME as everywhere); prints its folder."""
    from spotchange.models.hub.repository import copy_model, hub_name, pull_model
    from spotchange.models.weights.description import check_replaceable, read_settings

    if out is not None:
        check_replaceable(out, force=force)
    found = hub_name(name)
    if found is None:
        raise InputError(f"{name!r} is no name on the hub", hint="ORGANISATION/NAME")
    folder = pull_model(found[0], revision=revision or found[1])
    read_settings(folder)  # says so where it is not a model of ours
    if out is not None:
        copy_model(folder, out)
    print_written(out or folder, as_json)


@app.command(epilog="Example: spotchange models push out/mine/best ORGANISATION/NAME --private")
def push(
    model: Annotated[str, typer.Argument(help="A model folder, or 'bundled'.")],
    name: Annotated[str, typer.Argument(metavar="ORGANISATION/NAME", help="Where it shall be on the hub.")],
    revision: Annotated[str | None, typer.Option(help="Branch to write to.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    message: Annotated[str | None, typer.Option(help="Of the commit.")] = None,
    results: Annotated[Path | None, typer.Option(help="JSON of `evaluate`: its figures go into the card.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the commit's address as JSON.")] = False,
) -> None:
    """Upload a model to the hub, checked, with a card; needs `hf auth login` or HF_TOKEN. Prints the commit."""
    from spotchange.answering import model_folder
    from spotchange.models.hub.repository import push_model

    address = push_model(
        model_folder(model), name, revision=revision, private=private, message=message, results=results
    )
    if as_json:
        print_json({"commit": address})
    else:
        print_line(address)


app.command(epilog="Example: spotchange models attention before.png after.png --out map.png")(attention)
app.command(epilog="Example: spotchange models align before.png after.png --model out/pcl/best --out words.png")(align)
app.command(epilog="Example: spotchange models calibrate out/small/caption/best data/scenes")(calibrate)
app.command(epilog="Example: spotchange models export out/small/caption/best --out small")(export)


def _in_words(settings: ModelSettings) -> tuple[str, str, str, str]:
    vision, captioner = settings.vision, settings.captioner
    backbone = vision.backbone if vision.backbone != "vit" else f"ViT {vision.width}/{vision.patch}"
    speaks = "-"
    if captioner is not None:
        speaks = f"{captioner.encoder_layers} + {captioner.decoder_layers} x {captioner.width}"
    height, width = vision.image_size
    return f"{height}x{width}", backbone, f"{vision.intra} + {vision.inter}", speaks


def _parse_size(text: str) -> tuple[int, int]:
    try:
        height, width = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise InputError(f"--image-size {text!r} is not HEIGHTxWIDTH in pixels") from None
    return height, width
