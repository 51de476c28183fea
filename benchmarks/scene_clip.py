"""How well two towers trained on single images see: retrieval of their texts, and linear probes of attributes.

python benchmarks/scene_clip.py MODEL [--device cuda] [--images 1000] [--fit 1000] [--wanted R@1] [--out FILE]

Images are scenes of the test split, which no run trains on, in the benchmark's own look; half of them are seen by
second cameras. Retrieval is among all `--images`, one text each. Probes are ridge regressions from frozen patch
features to the colour, shape, material and size of the object that covers the patch, fitted on `--fit` other
images; "random" is the same network before training, "majority" the commonest class. Ends with code 2 where R@1 of
image to text (percent) is below --wanted: nothing should start from such towers.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.scenes import scene_preset
from spotchange.evaluation.linear_probe import majority_accuracy, probe_accuracy
from spotchange.evaluation.retrieval import retrieval_scores
from spotchange.language.image_texts import write_image_texts
from spotchange.language.vocabulary import PAD_ID
from spotchange.models.build import build_model
from spotchange.models.weights.folder import LoadedModel, load_model
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, BEFORE
from spotchange.scenes.changes import as_tensors
from spotchange.scenes.patch_labels import patch_truth
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views
from spotchange.training.sources.generated.single_images import from_both_cameras

SEED = 77
AT_ONCE = {"cpu": 25, "cuda": 250}


@dataclass(frozen=True)
class ImageBatch:
    """Test images as the model reads them, with what is known of them."""

    images: Tensor  # float (N, 3, H, W), normalised
    ids: Tensor  # int64 (N, words)
    attributes: Tensor  # int64 (N, patches, 4), -1 where no object


def draw(loaded: LoadedModel, first: int, count: int, device: str) -> ImageBatch:
    """Scenes `first` to `first + count - 1` of the test split."""
    settings = scene_preset("clevr-change")
    world = World(settings, seed=world_seed(SEED, "test"), device=device)
    scenes = from_both_cameras(world.scenes(np.arange(first, first + count)))
    height, width = loaded.settings.vision.image_size
    images, ids = draw_views(
        scenes,
        settings.look,
        seed=world.seed,
        width=width,
        height=height,
        quality="faithful",
        device=device,
        views=(BEFORE,),
    )
    attributes, _ = patch_truth(as_tensors(scenes), ids.expand(-1, 3, -1, -1), loaded.settings.vision.grid)
    mean, std = (torch.tensor(each, device=device).view(1, 3, 1, 1) for each in
                 (loaded.preprocessor.mean, loaded.preprocessor.std))  # fmt: skip
    texts = torch.as_tensor(write_image_texts(scenes, seed=world.seed)).long()
    return ImageBatch((images[:, 0].float() / 255 - mean) / std, texts, attributes[::2, 0].long())


def look(model: Any, shown: ImageBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of images and of texts, and features of patches (N, patches, width)."""
    with torch.inference_mode():
        patches = model.encoder.norm(model.encoder.backbone(shown.images)[:, 1:])
        return model.embed_image(shown.images), model.embed_text(shown.ids, shown.ids != PAD_ID), patches


def gather(loaded: LoadedModel, networks: list[Any], first: int, count: int, device: str) -> list[dict[str, Tensor]]:
    """For every network: embeddings of all images and texts, and the patches that show an object."""
    found: list[dict[str, list[Tensor]]] = [{} for _ in networks]
    for start in range(first, first + count, step := AT_ONCE[device.partition(":")[0]]):
        shown = draw(loaded, start, min(step, first + count - start), device)
        covered = shown.attributes[..., 0] >= 0
        for network, kept in zip(networks, found, strict=True):
            images, texts, patches = look(network, shown)
            parts = {"pictures": images, "texts": texts, "ids": shown.ids}
            parts |= {"patches": patches[covered], "attributes": shown.attributes[covered]}
            for name, value in parts.items():
                kept.setdefault(name, []).append(value.clone())
    return [{name: torch.cat(values) for name, values in kept.items()} for kept in found]


def probes(fitted: dict[str, Tensor], tested: dict[str, Tensor]) -> dict[str, float]:
    """Accuracy on the patches of test images, by attribute."""
    return {
        name: probe_accuracy(
            fitted["patches"].double(),
            fitted["attributes"][:, place],
            tested["patches"].double(),
            tested["attributes"][:, place],
            classes=len(values),
        )
        for place, (name, values) in enumerate(zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, strict=True))
    }


def single_image_retrieval(seen: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """Images to texts and back; equal texts count as one."""
    column: dict[tuple[int, ...], int] = {}
    own = [[column.setdefault(tuple(ids), len(column))] for ids in seen["ids"].tolist()]
    first = [own.index([place]) for place in range(len(column))]
    similarity = (seen["pictures"] @ seen["texts"][first].T).cpu().numpy()
    found = retrieval_scores(similarity, own)
    return {"picture to text": found["pair to text"], "text to picture": found["text to pair"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--fit", type=int, default=1000)
    parser.add_argument("--wanted", type=float, default=0.0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    loaded = load_model(arguments.model, device=arguments.device)
    torch.manual_seed(0)
    networks: list[Any] = [loaded.model, build_model(loaded.settings).to(arguments.device).eval()]
    tested = gather(loaded, networks, 0, arguments.images, arguments.device)
    fitted = gather(loaded, networks, arguments.images, arguments.fit, arguments.device)
    labels, truth = fitted[0]["attributes"], tested[0]["attributes"]
    retrieval = single_image_retrieval(tested[0])
    report = {
        "pictures": arguments.images,
        "patches": len(truth),
        "retrieval": retrieval,
        "probe": probes(fitted[0], tested[0]),
        "random": probes(fitted[1], tested[1]),
        "majority": {
            name: majority_accuracy(labels[:, place], truth[:, place]) for place, name in enumerate(ATTRIBUTE_NAMES)
        },
    }
    text = json.dumps(report, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    reached = 100 * retrieval["picture to text"]["R@1"]
    if reached < arguments.wanted:
        print(f"R@1 is {reached:.1f}; wanted: {arguments.wanted}")
        sys.exit(2)


if __name__ == "__main__":
    main()
