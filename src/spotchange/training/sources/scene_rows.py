"""What a feature folder says of generated scenes: pairs, described images, or objects cut out with their classes.

Rows number the images that are returned beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from spotchange.data.caches.features import FeatureRow
from spotchange.language.descriptions import describe_view, object_classes
from spotchange.language.writer import captions_text, write_captions
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, BEFORE, SHAPE, SceneBatch
from spotchange.scenes.export import object_boxes
from spotchange.scenes.stream import PLAIN_CHOICES, plainest

RowMaker = Callable[[SceneBatch, Tensor, Tensor, int], tuple[Tensor, list[FeatureRow]]]
"""Scenes, their images (scenes, 3, 3, H, W), the objects in each pixel and a seed to images and rows."""

CAPTIONS_A_PAIR = 3
_SMALLEST_CROP = 8  # pixels: an object that shows less is hardly seen
_CROP_MARGIN = 0.25


def pair_rows(
    batch: SceneBatch, images: Tensor, ids: Tensor, seed: int, *, plain: bool
) -> tuple[Tensor, list[FeatureRow]]:
    """Three images a scene; its change pair and its distractor pair."""
    written = torch.as_tensor(write_captions(batch, seed=seed, per_pair=PLAIN_CHOICES if plain else CAPTIONS_A_PAIR))
    # One sentence a pair is the plainest; the other pairs' number of sentences is kept, and doubles are dropped below.
    chosen = plainest(written)[:, :, None].expand(-1, -1, CAPTIONS_A_PAIR, -1) if plain else written
    texts = captions_text(chosen)
    change = torch.as_tensor(batch.change).tolist()
    rows = []
    for scene in range(len(batch)):
        number, at = 3 * scene, 2 * CAPTIONS_A_PAIR * scene
        scene_id = int(batch.scene_id[scene])
        for kind, after, start in ((change[scene], number + 1, at), (0, number + 2, at + CAPTIONS_A_PAIR)):
            captions = tuple(dict.fromkeys(texts[start : start + CAPTIONS_A_PAIR]))
            rows.append(
                FeatureRow(before=number, after=after, captions=captions, change_type=int(kind), scene=scene_id)
            )
    return images.flatten(0, 1), rows


def described_rows(batch: SceneBatch, images: Tensor, ids: Tensor, seed: int) -> tuple[Tensor, list[FeatureRow]]:
    """The image before of every scene, with sentences about what stands in it."""
    batch = batch.on_host()
    rows = []
    for scene in range(len(batch)):
        objects = batch.attributes[scene, 0]
        things = tuple(
            {name: values[int(code)] for name, values, code in zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, one, strict=True)}
            for one in objects[objects[:, SHAPE] >= 0]
        )
        captions = tuple(describe_view(batch, scene, BEFORE, seed=seed))
        rows.append(FeatureRow(before=scene, after=scene, captions=captions, things=things))
    return images[:, BEFORE], rows


def object_rows(batch: SceneBatch, images: Tensor, ids: Tensor, seed: int) -> tuple[Tensor, list[FeatureRow]]:
    """Every object of the image before, cut out and enlarged, with its class."""
    batch = batch.on_host()
    height, width = images.shape[-2:]
    classes = object_classes(batch.attributes[:, 0])
    crops: list[Tensor] = []
    rows = []
    for scene in range(len(batch)):
        for slot, (x, y, wide, high) in enumerate(object_boxes(ids[scene, BEFORE].cpu().numpy()[None])[0].tolist()):
            if min(wide, high) < _SMALLEST_CROP or classes[scene, slot] < 0:
                continue
            more_x, more_y = round(_CROP_MARGIN * wide), round(_CROP_MARGIN * high)
            top, left = max(0, y - more_y), max(0, x - more_x)
            crop = images[scene, BEFORE, :, top : y + high + more_y, left : x + wide + more_x]
            larger: Any = torch.nn.functional.interpolate(
                crop[None].float(), size=(height, width), mode="bilinear", antialias=True
            )
            number = len(crops)
            crops.append(larger.round().clamp(0, 255).to(torch.uint8)[0])
            rows.append(FeatureRow(before=number, after=number, captions=(), class_id=int(classes[scene, slot])))
    return torch.stack(crops), rows
