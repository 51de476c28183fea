"""`spotchange models export`: a small copy for captioning, and graphs that run without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spotchange.cli.output import print_json, print_line
from spotchange.errors import InputError

if TYPE_CHECKING:
    from spotchange.models.export.manifest import OnnxManifest

Form = Literal["safetensors", "onnx"]


def export(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="A model folder, such as RUN/best; of several, the mean.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; --to onnx alone writes into MODEL, a folder of yours.")
    ] = None,
    to: Annotated[
        Form, typer.Option(help="safetensors: weights; onnx: also graphs beside them, for captioning without torch.")
    ] = "safetensors",
    int8: Annotated[
        bool, typer.Option("--int8", help="Store the encoder's matrices in 8 bits; --to onnx multiplies with them.")
    ] = False,
    stored: Annotated[
        str | None, typer.Option(help="How weights are stored: float32, float16 (default) or bfloat16.")
    ] = None,
    shard_mib: Annotated[int, typer.Option(min=1, help="Largest weight file, in MiB.")] = 15,
    keep_text_encoder: Annotated[
        bool, typer.Option("--keep-text-encoder", help="Keep what only retrieval needs.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that --out holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a small copy of a model for captioning, or the graphs that caption without torch.

    The copy is in half precision, in shards, without the text encoder. Several models that were trained from one start
    (other seeds of a last stage) become the mean of their weights. --int8 halves it again: matrices of the encoder in
    8 bits, which load as fp32 wherever torch is used. With --to onnx the encoder and one step of the
    decoder are written as ONNX graphs whose weights stay in the safetensors files.
    """
    from spotchange.answering import model_folder
    from spotchange.answering.build import own_folder

    if int8 and stored is not None:
        raise InputError(f"--int8 and --stored {stored} contradict each other")
    if int8 and out is None:
        raise InputError("--out is needed: --int8 writes other weights")
    if out is None and (to != "onnx" or len(models) > 1):
        raise InputError("--out is needed: the folder to write")
    if out is None:
        own_folder(models[0], hint=f"write a copy: spotchange models export {models[0]} --to onnx --out FOLDER")
    folders = [model_folder(name) for name in models]
    if to == "onnx":
        from spotchange.models.export.graphs import check_has_graphs

        check_has_graphs(folders[0])
    if out is None:
        from spotchange.models.export.write import export_onnx

        manifest: OnnxManifest | None = export_onnx(folders[0])
    else:
        kind = "int8" if int8 else stored or "float16"
        manifest = _write_copy(
            folders, out, to, stored=kind, shard_mib=shard_mib, keep_text=keep_text_encoder, force=force
        )
    folder = folders[0] if out is None else out
    facts: dict[str, Any] = {"out": str(folder)}
    if manifest is not None:
        facts |= {"precision": manifest.precision, "opset": manifest.opset}
        facts |= {"largest_difference": max(manifest.largest_difference.values())}
    facts["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
    if as_json:
        print_json(facts)
    else:
        print_line(f"{folder}: {facts['bytes'] / 2**20:.1f} MiB")


def _write_copy(
    folders: list[Path], out: Path, to: Form, *, stored: str, shard_mib: int, keep_text: bool, force: bool
) -> OnnxManifest | None:
    """The copy, with its graphs where they are wanted: all of it or nothing, whatever ends the export."""
    from spotchange.answering.calibration import CALIBRATION_FILE, FAMILIARITY_FILE
    from spotchange.files import new_folder, write_bytes
    from spotchange.models.weights.description import check_replaceable
    from spotchange.models.weights.folder import EIGHT_BITS, save_model
    from spotchange.models.weights.transfer import average

    if stored not in {"float32", "float16", "bfloat16", EIGHT_BITS}:
        raise InputError(f"--stored {stored!r}: choose float32, float16 or bfloat16")
    check_replaceable(out, force=force)
    folder, loaded = folders[0], average(folders)
    if stored == EIGHT_BITS:
        from spotchange.models.export.equalise import equalise

        equalise(loaded)
    # The mean of several models has other features than each: it has to be calibrated itself.
    kept = ("recipe.yaml", "README.md", *((CALIBRATION_FILE,) if len(folders) == 1 else ()))
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in kept if (folder / name).is_file()}
    with new_folder(out) as fresh:
        save_model(
            fresh,
            model=loaded.model,
            settings=loaded.settings,
            tokenizer=loaded.tokenizer,
            preprocessor=loaded.preprocessor,
            texts=texts,
            stored=stored,
            max_shard_bytes=shard_mib * 2**20,
            keep_text_encoder=keep_text,
        )
        if len(folders) == 1 and (folder / FAMILIARITY_FILE).is_file():
            write_bytes(fresh / FAMILIARITY_FILE, (folder / FAMILIARITY_FILE).read_bytes())
        if to != "onnx":
            return None
        from spotchange.models.export.write import export_onnx

        return export_onnx(fresh)
