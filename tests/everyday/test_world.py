import torch

from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import KIND_IDS, KINDS, OBJECT_KINDS
from spotchange.everyday.sampling import draw_scenes
from spotchange.everyday.scenes import TARGET
from spotchange.everyday.stream import EverydayStream
from spotchange.everyday.truth import truth_of

SIDE, GRID = 96, (6, 6)


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
