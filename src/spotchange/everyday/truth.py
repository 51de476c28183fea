"""What is known about composited images: which patches changed, where the change is, what is seen in a window."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.imaging.compositing import ImageBatch, pooled
from spotchange.everyday.kinds import KIND_IDS, OBJECT_KINDS
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import OTHERS, TARGET, Scenes

_LEAST = 45  # pixels of the target that must be seen for the pair to count, at 288 pixels a side
_COVERED = 0.12  # part of a patch that makes it belong to the change


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Of N scenes with a grid of patches."""

    kind: Tensor  # int64 (N,): -1 where the change cannot be seen
    mask: Tensor  # bool (N, 2, patches): the thing that changes
    mask_known: Tensor  # bool (N,): False for changes of the whole image, which have no place
    facts: Tensor  # int64 (N, 5): as frames ask for them
    nouns: Tensor  # int64 (N, 2): of the thing that changes; -1 where it is not
    colours: Tensor  # int64 (N, 2)
    patch_nouns: Tensor  # int64 (N, 2, patches): in the middle of each patch; -1 for the background
    windows: Tensor  # float (N, 2, 4): middle, width, height of a thing to look at again
    window_nouns: Tensor  # int64 (N, 2): -1 where it is hidden
    window_colours: Tensor  # int64 (N, 2)


def truth_of(library: Library, scenes: Scenes, images: ImageBatch, *, grid: tuple[int, int]) -> Truth:
    """Everything that training asks about the images, of scenes where one thing changes."""
    side = images.changed.shape[-1]
    has_place = (scenes.kind >= 1) & (scenes.kind <= len(OBJECT_KINDS))
    seen = images.changed.sum(dim=(2, 3)) * (288 / side) ** 2  # (N, 2)
    needed = scenes.things.on[:, :, TARGET] & has_place[:, None]
    hidden = (needed & (seen < _LEAST)).any(dim=1)
    share = pooled(images.changed, grid).flatten(2)
    enough = torch.minimum(torch.full_like(share[..., :1], _COVERED), 0.5 * share.amax(dim=2, keepdim=True))
    mask = (share > enough.clamp(min=1e-4)) & needed[..., None]
    there = needed & (seen >= _LEAST)
    nouns, colours = library.nouns[scenes.things.object], scenes.things.colour
    windows, window_layer = _windows(scenes, there)
    layer_nouns = nouns.gather(2, window_layer[..., None])[..., 0]
    layer_colours = colours.gather(2, window_layer[..., None])[..., 0]
    visible = _seen_at_middle(images, windows, window_layer)
    step_y, step_x = side // grid[0], side // grid[1]
    middle = images.label[:, :, step_y // 2 :: step_y, step_x // 2 :: step_x].long().flatten(2)
    patch_nouns = torch.where(middle >= 0, nouns.gather(2, middle.clamp(min=0)), -1)
    return Truth(
        kind=torch.where(hidden, -1, scenes.kind),
        mask=mask,
        mask_known=~hidden & (has_place | (scenes.kind == 0)),
        facts=_facts(scenes, share * needed[..., None], grid),
        nouns=torch.where(there, nouns[:, :, TARGET], -1),
        colours=torch.where(there, colours[:, :, TARGET], -1),
        patch_nouns=patch_nouns,
        windows=windows,
        window_nouns=torch.where(visible, layer_nouns, -1),
        window_colours=torch.where(visible, layer_colours, -1),
    )


def _facts(scenes: Scenes, share: Tensor, grid: tuple[int, int]) -> Tensor:
    """Places in both images, direction of the move, new colour, larger or smaller."""
    rows = (torch.arange(grid[0], device=share.device) + 0.5) / grid[0]
    columns = (torch.arange(grid[1], device=share.device) + 0.5) / grid[1]
    whole = share.sum(dim=2).clamp(min=1e-6)
    by_grid = share.unflatten(2, grid)
    y = (by_grid.sum(3) * rows).sum(2) / whole  # (N, 2)
    x = (by_grid.sum(2) * columns).sum(2) / whole

    def third(place: Tensor) -> Tensor:
        return (place > 0.36).long() + (place > 0.64).long()

    cell = 3 * third(y) + third(x)
    # Where the thing is in one image only, that is its place in both.
    there = share.sum(dim=2) > 0
    before = torch.where(there[:, 0], cell[:, 0], cell[:, 1])
    after = torch.where(there[:, 1], cell[:, 1], cell[:, 0])
    across, down = x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]
    way = torch.where(across.abs() >= down.abs(), (across > 0).long(), 2 + (down > 0).long())
    height = scenes.things.height[:, :, TARGET]
    return torch.stack(
        [before, after, way, scenes.things.colour[:, 1, TARGET], (height[:, 1] < height[:, 0]).long()], dim=1
    )


def _windows(scenes: Scenes, there: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes in the image's own frame round the target, or round another thing where the target is not."""
    things = scenes.things
    draws = Draws(scenes.seed + 1, scenes.numbers)
    among = (things.on[:, 0, 1 : OTHERS + 1].sum(1).clamp(min=1).float() * draws.one()).long()
    other = (1 + among).clamp(max=OTHERS)
    layer = torch.where(there, TARGET, other[:, None])  # (N, 2)

    def of(values: Tensor) -> Tensor:
        return values.gather(2, layer[..., None])[..., 0]

    x, y, width, height, angle = (of(getattr(things, name)) for name in ("x", "y", "width", "height", "angle"))
    cos, sin = torch.cos(angle).abs(), torch.sin(angle).abs()
    width, height = width * cos + height * sin, width * sin + height * cos
    a, b, move_x, c, d, move_y, _, _ = scenes.looks.camera.unbind(2)
    det = a * d - b * c
    px = (d * (x - move_x) - b * (y - move_y)) / det
    py = (a * (y - move_y) - c * (x - move_x)) / det
    zoom = det.abs().sqrt()
    # Two pieces lie further apart than the one.
    wider = torch.where(scenes.kind == KIND_IDS["split"], 1.5, 1.0)[:, None]
    return torch.stack([px, py, width / zoom * wider, height / zoom], dim=2), layer


def _seen_at_middle(images: ImageBatch, windows: Tensor, layer: Tensor) -> Tensor:
    """Whether the thing itself is what is seen within the middle of its window, at one of nine places."""
    offsets = torch.tensor([-0.2, 0.0, 0.2], device=windows.device)
    x = (windows[..., 0, None, None] + windows[..., 2, None, None] * offsets[None, :]).expand(-1, -1, 3, 3)
    y = (windows[..., 1, None, None] + windows[..., 3, None, None] * offsets[:, None]).expand(-1, -1, 3, 3)
    grid = torch.stack([2 * x - 1, 2 * y - 1], dim=-1).flatten(0, 1)
    labels = images.label.float().flatten(0, 1)[:, None]
    found = F.grid_sample(labels + 1, grid, mode="nearest", align_corners=False)[:, 0].unflatten(0, (-1, 2))
    result: Tensor = ((found - 1) == layer[..., None, None]).sum(dim=(2, 3)) >= 5
    return result


def cut_windows(pixels: Tensor, windows: Tensor, *, size: int) -> Tensor:
    """(M, 3, side, side) and boxes (M, 4) to (M, 3, size, size): a square round each box, squashed to it."""
    steps = (torch.arange(size, device=pixels.device) + 0.5) / size - 0.5
    x = windows[:, 0, None] + windows[:, 2, None] * steps
    y = windows[:, 1, None] + windows[:, 3, None] * steps
    grid = torch.stack(
        [(2 * x - 1)[:, None, :].expand(-1, size, -1), (2 * y - 1)[:, :, None].expand(-1, -1, size)], dim=-1
    )
    return F.grid_sample(pixels, grid.to(pixels.dtype), mode="bilinear", padding_mode="reflection", align_corners=False)
