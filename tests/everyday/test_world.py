import pytest
import torch

from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import KIND_IDS, KINDS, OBJECT_KINDS
from spotchange.everyday.sampling import draw_scenes
from spotchange.everyday.scenes import HALF, TARGET
from spotchange.everyday.stream import EverydayStream
from spotchange.everyday.truth import truth_of

SIDE, GRID = 96, (6, 6)
# Of 64 scenes, as they were drawn before a scene could have several changes: weighed sums, and plain ones.
WHOLE = (5026, 24786, 136078, 210303, 26990)
PARTS = (591.0422, 671.7469, 352.7906, 251.2343, 4.2249, 1161.6381, 256.4411)


def only(kind: str) -> dict[str, float]:
    return {name: float(name == kind) for name in KINDS}


def test_a_scene_depends_on_its_number_alone(library):
    alone = draw_scenes(library, torch.tensor([5]), seed=3)
    among = draw_scenes(library, torch.arange(8), seed=3).rows(torch.tensor([5]))
    assert torch.equal(alone.kind, among.kind)
    assert torch.equal(compose(library, alone, side=SIDE).pixels, compose(library, among, side=SIDE).pixels)
    other = draw_scenes(library, torch.tensor([5]), seed=4)
    assert not torch.equal(compose(library, alone, side=SIDE).pixels, compose(library, other, side=SIDE).pixels)


def test_every_kind_puts_the_thing_where_it_belongs(library):
    for kind in OBJECT_KINDS:
        scenes = draw_scenes(library, torch.arange(4), seed=1, shares=only(kind))
        assert (scenes.kind == KIND_IDS[kind]).all()
        before, after = scenes.things.on[:, :, TARGET].unbind(1)
        assert bool(before.all()) == (kind != "add")
        assert bool(after.all()) == (kind != "drop")


def test_scenes_are_what_they_were_when_no_scene_had_several_changes(library):
    scenes = draw_scenes(library, torch.arange(64), seed=3)
    things = scenes.things
    for each, expected in zip(
        (scenes.kind, things.on, things.object, things.colour, things.flipped), WHOLE, strict=True
    ):
        assert int((each.flatten().long() * (torch.arange(1, each.numel() + 1) % 97)).sum()) == expected
    parts = (things.x, things.y, things.width, things.height, things.angle, things.gain, scenes.looks.camera)
    assert [float(each.double().sum()) for each in parts] == pytest.approx(PARTS, abs=1e-3)


def test_one_change_is_the_same_whatever_else_may_change(library):
    one = draw_scenes(library, torch.arange(24), seed=3)
    several = draw_scenes(library, torch.arange(24), seed=3, changes=4)
    assert torch.equal(one.kind, several.kind)
    alone = (several.kinds[:, 1:] == 0).all(1) & (one.kind >= 1) & (one.kind <= len(OBJECT_KINDS))
    assert 2 <= alone.sum() < 20
    images = [compose(library, each.rows(alone), side=SIDE) for each in (one, several)]
    assert torch.equal(images[0].pixels, images[1].pixels)
    assert torch.equal(images[0].changed, images[1].changed)


def test_several_things_change_each_in_its_own_way(library):
    shares = dict.fromkeys(KINDS, 1.0)
    scenes = draw_scenes(library, torch.arange(200), seed=4, shares=shares, changes=3)
    of_things = (scenes.kinds >= 1) & (scenes.kinds <= len(OBJECT_KINDS))
    assert torch.equal(of_things.sum(1).unique(), torch.arange(4))
    assert not of_things[scenes.kind > len(OBJECT_KINDS)].any()  # nor where the whole picture changes
    before, after = scenes.things.on.unbind(1)
    for thing in range(3):
        kind = scenes.kinds[:, thing]
        added, dropped = kind == KIND_IDS["add"], kind == KIND_IDS["drop"]
        there = of_things[:, thing]
        assert torch.equal(before[there, thing], ~added[there])
        assert torch.equal(after[there, thing], ~dropped[there])
        assert torch.equal(after[:, HALF + thing], kind == KIND_IDS["split"])
    moved = (scenes.kinds[:, 1] == KIND_IDS["move"]).nonzero()[:, 0]
    apart = (scenes.things.x[moved, 0, 1] - scenes.things.x[moved, 1, 1]).abs()
    assert len(moved) >= 3
    assert ((apart > 0.05) | ((scenes.things.y[moved, 0, 1] - scenes.things.y[moved, 1, 1]).abs() > 0.05)).all()
    some = scenes.rows(torch.arange(8))
    images = compose(library, some, side=SIDE)
    seen = [set(label.unique().tolist()) for label in images.label.where(images.changed > 0.99, -1)[:, 1]]
    for layers, on, changing in zip(seen, some.things.on[:, 1], some.changing, strict=True):
        assert layers - {-1} <= set((on & changing).nonzero()[:, 0].tolist())
        assert bool(layers - {-1}) or not (on & changing).any()


def test_mask_covers_the_change_and_nothing_where_nothing_changed(library):
    for kind, changed in (("add", True), ("none", False), ("darker", False)):
        scenes = draw_scenes(library, torch.arange(6), seed=2, shares=only(kind))
        truth = truth_of(library, scenes, compose(library, scenes, side=SIDE), grid=GRID)
        seen = truth.kind >= 0
        assert bool(truth.mask[seen].any()) == changed
        assert not truth.mask[:, 0].any()  # what was added is not in the image before


def test_whole_changes_are_what_they_say(library):
    def mean(kind: str) -> tuple[float, float]:
        pixels = compose(library, draw_scenes(library, torch.arange(6), seed=5, shares=only(kind)), side=SIDE).pixels
        return float(pixels[:, 0].float().mean()), float(pixels[:, 1].float().mean())

    before, after = mean("brighter")
    assert after > 1.1 * before
    before, after = mean("darker")
    assert after < 0.9 * before
    gray = compose(library, draw_scenes(library, torch.arange(4), seed=5, shares=only("gray")), side=SIDE).pixels[:, 1]
    assert (gray.float().amax(1) - gray.float().amin(1)).mean() < 8  # grain alone is coloured


def test_stream_goes_on_where_it_stood(library):
    first = EverydayStream(library, pairs=2, side=SIDE, grid=GRID, seed=7)
    first.next_batch()
    second = EverydayStream(library, pairs=2, side=SIDE, grid=GRID, seed=7)
    second.load_state_dict(first.state_dict())
    expected, got = first.next_batch(), second.next_batch()
    assert torch.equal(expected.after, got.after)
    assert torch.equal(expected.caption_ids, got.caption_ids)
    assert expected.scene_id.tolist() == [2, 3]
