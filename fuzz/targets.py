"""One function a parser: bytes in; anything but a result or a `SpotchangeError` is a hole."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

from spotchange.errors import SpotchangeError

MOST_PIXELS = 4_000_000  # a run shall try many inputs rather than large ones
Target = Callable[[bytes, Path], None]


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """A refusal in our own words is what we want."""
    with contextlib.suppress(SpotchangeError):
        yield


def images(data: bytes, folder: Path) -> None:
    from spotchange.comparison.raster import read_raster
    from spotchange.images import image_size, read_image
    from spotchange.serving.api.problems import Problem
    from spotchange.serving.api.uploads import check_image
    from spotchange.serving.settings import ServerSettings

    with refused():
        image_size(data, max_pixels=MOST_PIXELS)
    with refused():
        assert read_image(data, max_pixels=MOST_PIXELS).mode == "RGB"
    with refused():
        read_raster(data, max_pixels=MOST_PIXELS)
    with contextlib.suppress(Problem):
        check_image(data, "before", ServerSettings(max_pixels=MOST_PIXELS))


def manifests(data: bytes, folder: Path) -> None:
    from spotchange.answering.bulk.one_machine import pairs_from_manifest
    from spotchange.data.metadata import RowReader

    path = folder / "pairs.jsonl"
    path.write_bytes(data)
    with refused():
        pairs_from_manifest(path)
    with refused():
        list(RowReader(path, skip_bad=True, on_problem=str))


def recipes(data: bytes, folder: Path) -> None:
    from spotchange.config.training import Recipe

    path = folder / "recipe.yaml"
    path.write_bytes(data)
    with refused():
        Recipe.from_yaml(path)


def model_folders(data: bytes, folder: Path) -> None:
    """The first byte says which file of a small model folder the rest becomes."""
    from spotchange.answering.calibration import read_calibration
    from spotchange.models.weights.folder import load_model

    names = sorted(path.name for path in _model(folder).iterdir())
    name = names[(data[0] if data else 0) % len(names)]
    kept = (_model(folder) / name).read_bytes()
    try:
        (_model(folder) / name).write_bytes(data[1:])
        with refused():
            load_model(_model(folder))
        with refused():
            read_calibration(_model(folder))
    finally:
        (_model(folder) / name).write_bytes(kept)


def checkpoints(data: bytes, folder: Path) -> None:
    from spotchange.models.weights.published.checkpoint_files import read_checkpoint

    for suffix in (".pt", ".safetensors"):
        path = folder / f"weights{suffix}"
        path.write_bytes(data)
        with refused():
            read_checkpoint(path)


def shards(data: bytes, folder: Path) -> None:
    from spotchange.data.shards import read_shards

    path = folder / "train-000000.tar"
    path.write_bytes(data)
    with refused():
        for _ in read_shards([path]):
            pass


def score_files(data: bytes, folder: Path) -> None:
    from spotchange.metrics import read_predictions, read_references
    from spotchange.metrics.inputs import read_results

    for name in ("captions.json", "captions.jsonl"):
        (folder / name).write_bytes(data)
        for read in (read_predictions, read_references, read_results):
            with refused():
                read(folder / name)


TARGETS: dict[str, Target] = {
    "images": images,
    "manifests": manifests,
    "recipes": recipes,
    "model_folders": model_folders,
    "checkpoints": checkpoints,
    "shards": shards,
    "score_files": score_files,
}


def starting_points(name: str, folder: Path) -> list[bytes]:
    """Sound inputs of a target, from which mutations begin."""
    return {
        "images": _images,
        "manifests": lambda: [
            b'{"id": "1", "before_file_name": "a.png", "after_file_name": "b.png", "captions": ["x"], "facts": {}}\n',
            b'{"id": 1, "before_file_name": "a", "after_file_name": "b", "before_boxes": [[1, 2, 3, 4]]}\n' * 2,
        ],
        "recipes": lambda: [path.read_bytes() for path in _recipes()],
        "model_folders": lambda: [
            bytes([place]) + path.read_bytes()[:20_000] for place, path in enumerate(sorted(_model(folder).iterdir()))
        ],
        "checkpoints": lambda: _checkpoints(folder),
        "shards": lambda: [_shard()],
        "score_files": lambda: [
            b'{"a": "x", "b": "y"}',
            b'{"a": ["x"], "b": ["y", "z"]}',
            b'{"id": "a", "caption": "x"}\n{"id": "b", "captions": ["y"]}\n',
            b'{"images": [{"id": 1}], "annotations": [{"image_id": 1, "id": 2, "caption": "x"}]}',
        ],
    }[name]()


def _images() -> list[bytes]:
    made = []
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    for kind in ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"):
        for mode in ("RGB", "L", "P", "RGBA", "I;16", "1"):
            packed = io.BytesIO()
            with contextlib.suppress(OSError, ValueError, KeyError):  # not every format holds every kind
                Image.new(mode, (17, 11), 1).save(packed, kind, **({"exif": exif} if kind != "GIF" else {}))
                made.append(packed.getvalue())
    return made


def _recipes() -> list[Path]:
    from spotchange.config.recipes import RECIPES

    return sorted(RECIPES.rglob("*.yaml"))[:12]


def _model(folder: Path) -> Path:
    """A model folder of the smallest preset, made once."""
    model = folder / "model"
    if not model.is_dir():
        import torch

        from spotchange.config.model import ModelSettings
        from spotchange.language.vocabulary import build_tokenizer
        from spotchange.models.build import build_model, settings_for
        from spotchange.models.vision.preprocess import Preprocessor
        from spotchange.models.weights.folder import save_model

        tokenizer = build_tokenizer()
        settings = settings_for(ModelSettings.model_validate({"preset": "spotchange-tiny"}), tokenizer)
        torch.manual_seed(0)
        preprocessor = Preprocessor(image_size=settings.vision.image_size)
        texts = {
            "calibration.json": json.dumps({"temperature": 1.0, "threshold": 0.5, "word_penalties": {"left": 1.0}})
        }
        save_model(
            model, model=build_model(settings), settings=settings, tokenizer=tokenizer,
            preprocessor=preprocessor, texts=texts,
        )  # fmt: skip
    return model


def _checkpoints(folder: Path) -> list[bytes]:
    import torch
    from safetensors.torch import save
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    path = folder / "script.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Small()).save(str(path))
    plain = io.BytesIO()
    torch.save(Small().state_dict(), plain)
    with zipfile.ZipFile(path) as archive:
        loose = {name: archive.read(name) for name in archive.namelist()}
    unpacked = io.BytesIO()  # without checksums in the way, mutations reach the description
    with zipfile.ZipFile(unpacked, "w") as archive:
        for name, content in loose.items():
            archive.writestr(name, content)
    return [path.read_bytes(), unpacked.getvalue(), plain.getvalue(), save(Small().state_dict())]


def _shard() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as shard:
        for key in ("1", "2"):
            files = {"before.png": b"x", "after.png": b"y", "json": json.dumps({"captions": ["x"]}).encode()}
            for name, content in files.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    return packed.getvalue()
