import numpy as np
import pytest
from PIL import Image

from spotchange.everyday.kinds import KINDS, OBJECT_KINDS
from spotchange.everyday.language.naming import WINDOW, Name, hot_window
from spotchange.everyday.language.nouns import ROOT, everyday_nouns
from spotchange.everyday.language.telling import told
from spotchange.everyday.recognition.account import Account, SeenChange
from spotchange.everyday.recognition.detector import Detected, decoded, overlaps
from spotchange.everyday.recognition.evidence import Evidence, detected_kinds, likeness
from spotchange.everyday.recognition.recognisers import cut_window, detected_near
from spotchange.everyday.recognition.traces import Traces
from spotchange.results import Finding

TREE = everyday_nouns()
NOTHING = np.zeros(91, np.float32)


def corners(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_every_kind_of_the_detector_is_a_noun_of_the_tree():
    kinds = detected_kinds()
    assert (kinds >= 0).sum() == 80
    assert TREE.names[kinds[47]] == "cup"


def test_boxes_are_read_from_anchors():
    anchors = corners(0.2, 0.2, 0.4, 0.6)[None]  # top, left, bottom, right
    assert decoded(np.zeros((1, 4), np.float32), anchors)[0] == pytest.approx([0.2, 0.2, 0.6, 0.4])
    wider = decoded(np.array([[0, 10, 0, 5 * np.log(2)]], np.float32), anchors)[0]
    assert wider == pytest.approx([0.4, 0.2, 1.2, 0.4], abs=1e-6)


def test_overlap_of_boxes():
    found = overlaps(corners(0, 0, 0.5, 0.5), np.stack([corners(0, 0, 0.5, 0.5), corners(0.5, 0.5, 1, 1)]))
    assert found == pytest.approx([1, 0])


def test_a_detection_elsewhere_is_no_evidence():
    found = Detected(np.stack([corners(0.1, 0.1, 0.4, 0.4)]), np.array([47]), np.array([0.9], np.float32))
    assert detected_near(found, corners(0.1, 0.1, 0.4, 0.4))[47] == pytest.approx(0.9)
    assert detected_near(found, corners(0.6, 0.6, 0.9, 0.9)).max() == 0


def test_beyond_the_edge_a_window_goes_on_as_in_a_mirror():
    image = Image.fromarray(np.random.default_rng(2).integers(0, 255, (96, 128, 3), dtype=np.uint8))
    inside = np.asarray(cut_window(image, (0.5, 0.5, 0.25, 0.5)))
    assert inside.shape == (WINDOW, WINDOW, 3)
    corner = np.asarray(cut_window(image, (0.0, 0.0, 1.0, 1.0)), int)
    middle = WINDOW // 2
    assert np.abs(corner[:middle] - corner[middle:][::-1]).max() <= 1
    assert np.abs(corner[:, :middle] - corner[:, middle:][:, ::-1]).max() <= 1


def seen(noun: str) -> np.ndarray:
    """Scores of a second look that takes a thing for this."""
    scores = np.zeros((1, len(TREE.names) + 1))
    scores[0, TREE.ids[noun]] = 6
    return scores


def test_witnesses_that_agree_make_a_name_surer():
    cup, mug = NOTHING.copy(), TREE.ids["mug"]
    cup[47] = 0.9
    alone, together = (Evidence().chances(seen("mug"), marks[None])[0] for marks in (NOTHING, cup))
    assert together[mug] > alone[mug] > alone[TREE.ids["bowl"]]
    assert together.sum() == pytest.approx(1)


def test_a_detected_family_counts_for_its_kinds():
    cup = NOTHING.copy()
    cup[47] = 0.9
    found = Evidence().chances(np.zeros((1, len(TREE.names) + 1)), cup[None])[0][: len(TREE.names)]
    noun = TREE.hedge(found / found.sum(), 0.05)
    assert TREE.is_a("mug", noun) or TREE.is_a(noun, "cup")
    assert found[TREE.ids["mug"]] > 2 * found[TREE.ids["sneaker"]]


def test_a_family_is_said_sooner_than_a_kind_of_it():
    chances = np.zeros(len(TREE.names))
    chances[[TREE.ids["mug"], TREE.ids["bowl"], TREE.ids["dog"]]] = 0.6, 0.2, 0.2
    assert Evidence(level=0.7, closer=0.9).noun(chances) == "container"
    assert Evidence(level=0.7, closer=0.55).noun(chances) == "mug"
    assert Evidence(level=0.85, closer=0.9).noun(chances) == ROOT


class Eyes:
    """Recognisers that see what a test says: detections, and nouns by the side and place that is looked at."""

    def __init__(self, detected=None, nouns=None):
        nothing = Detected(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
        self.detected = detected or [nothing, nothing]
        self.nouns = nouns or {}
        self.evidence = Evidence(level=0.6, closer=0.6)
        self.second = []  # windows that were looked at again
        self.kind = None  # that the trained model is sure of; None: it is not
        self.certainty = 0.9  # how sure

    def detect(self, images):
        return self.detected

    @property
    def kinds(self):
        return {kind: self.certainty if kind == self.kind else 0.1 / 15 for kind in KINDS[1:]}

    def look(self, places):
        rows = np.full((len(places), len(TREE.names) + 1), 1e-4)
        for row, spot in zip(rows, places, strict=True):
            self.second.append(spot.second)
            noun = self.nouns.get(self.detected.index(spot.detected) if spot.detected in self.detected else 0)
            row[TREE.ids[noun] if noun else -1] = 1
        return rows / rows.sum(axis=1, keepdims=True)


def ground() -> np.ndarray:
    chance = np.random.default_rng(0)
    return np.asarray(120 + chance.normal(0, 3, (120, 160, 3)), np.uint8)


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.abs(before.astype(int) - after).max(axis=2) > 30


def put(image: np.ndarray, box: tuple[int, int, int, int], colour=(200, 30, 30)) -> np.ndarray:
    x, y, width, height = box
    image = image.copy()
    image[y : y + height, x : x + width] = colour
    return image


BOX = (20, 30, 30, 30)
COLD = np.zeros((2, 18, 18), np.float32)


def account(before, after, kind, box, eyes, *, box_after=None, heat=COLD) -> list[SeenChange]:
    finding = Finding(kind=kind, sentence="", boxes_before=(box,), boxes_after=(box_after or box,), pixels=100)
    images = (Image.fromarray(before), Image.fromarray(after))
    return Account(*images, changed(before, after), [finding], eyes, eyes.kinds, heat).changes()


def test_the_side_with_an_outline_has_the_thing():
    empty, full = ground(), put(ground(), BOX)
    box = corners(20 / 160, 30 / 120, 50 / 160, 60 / 120)
    assert Traces(full, empty, changed(full, empty)).outline(box) > 0.5
    assert Traces(empty, full, changed(full, empty)).outline(box) < -0.5


def test_the_second_look_goes_where_the_model_points_if_that_is_what_changed():
    empty, full = ground(), put(ground(), BOX)
    on, off = (np.zeros((2, 18, 18), np.float32) for _ in range(2))
    on[:, 6:8, 3:5] = 1  # within BOX
    off[:, 15:17, 12:16] = 1
    windows = []
    for heat in (on, off):
        eyes = Eyes()
        account(empty, full, "appeared", BOX, eyes, heat=heat)
        windows.append(eyes.second[0])
    assert windows[0] == hot_window(on[0])
    assert windows[1][:2] == pytest.approx((35 / 160, 45 / 120))


def test_what_appeared_and_what_is_gone():
    empty, full = ground(), put(ground(), BOX)
    (gone,) = account(full, empty, "replaced", BOX, Eyes())
    (came,) = account(empty, full, "replaced", BOX, Eyes())
    assert (gone.kind, came.kind) == ("drop", "add")
    assert told([gone], (160, 120)) == "something red on the left is gone"
    assert told([came], (160, 120)) == "something red was added on the left"


def test_a_thing_in_another_color():
    base = put(put(ground(), BOX, (200, 30, 30)), (28, 38, 10, 10), (20, 20, 20))
    other = put(put(ground(), BOX, (30, 60, 200)), (28, 38, 10, 10), (20, 20, 20))
    (change,) = account(base, other, "recoloured", BOX, Eyes())
    assert change.kind == "color"
    assert told([change], (160, 120)) == "something on the left is now blue"


def person(*boxes: np.ndarray) -> Detected:
    return Detected(np.stack(boxes), np.full(len(boxes), 1), np.full(len(boxes), 0.9, np.float32))


def test_a_person_that_changed_place_moved():
    before, after = put(ground(), BOX), put(ground(), (90, 30, 30, 30))
    eyes = Eyes([person(corners(0.1, 0.2, 0.34, 0.55)), person(corners(0.55, 0.2, 0.78, 0.55))])
    (change,) = account(before, after, "replaced", BOX, eyes)
    assert told([change], (160, 120)) == "the person on the left moved to the right"


def test_a_person_beside_the_change_is_not_blamed():
    before, after = put(ground(), BOX), ground()
    eyes = Eyes([person(corners(0.7, 0.2, 0.95, 0.95))] * 2)
    (change,) = account(before, after, "disappeared", BOX, eyes)
    assert change.thing.noun == ROOT


def test_nothing_is_named_below_the_level():
    assert likeness(*np.eye(3)[:2]) == 0
    hedged = SeenChange(kind=None, before=corners(0, 0, 0.2, 0.2), after=None, thing=Name(noun=ROOT))
    assert told([hedged], (100, 100)) == "something at the top left has changed"
    assert told([], (100, 100)) == "most of the picture has changed"


@pytest.mark.parametrize("kind", OBJECT_KINDS)
def test_a_sure_model_is_believed(kind):
    eyes = Eyes()
    eyes.kind = kind
    (change,) = account(put(ground(), BOX), put(ground(), BOX, (30, 60, 200)), "replaced", BOX, eyes)
    assert change.kind == kind
    assert (change.before is None, change.after is None) == (kind == "add", kind == "drop")


def test_an_unsure_model_leaves_the_kind_to_the_rules():
    eyes = Eyes()
    assert max(eyes.kinds.values()) < 0.5
    (change,) = account(put(ground(), BOX), ground(), "replaced", BOX, eyes)
    assert change.kind == "drop"


def test_people_do_not_come_apart_whatever_the_model_says():
    eyes = Eyes([person(corners(0.1, 0.2, 0.35, 0.6))] * 2)
    eyes.kind, eyes.certainty = "split", 0.99
    (change,) = account(put(ground(), BOX), put(ground(), BOX, (30, 60, 200)), "replaced", BOX, eyes)
    assert change.thing.noun == "person"
    assert change.kind != "split"


@pytest.mark.parametrize(("certainty", "noun"), [(0.9, "person"), (0.99, ROOT)])
def test_a_thing_that_came_is_no_person_where_the_model_is_sure_by_far(certainty, noun):
    eyes = Eyes([person(corners(0.1, 0.2, 0.35, 0.6))] * 2)
    eyes.kind, eyes.certainty = "add", certainty
    (change,) = account(ground(), put(ground(), BOX), "appeared", BOX, eyes)
    assert change.thing.noun == noun
    assert (change.kind == "add") == (noun == ROOT)


@pytest.mark.parametrize(("certainty", "kind"), [(0.9, "add"), (0.99, "replace")])
def test_a_person_seen_in_one_image_only_did_not_come_where_the_model_is_sure_of_another_kind(certainty, kind):
    nobody = Detected(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
    eyes = Eyes([nobody, person(corners(0.1, 0.2, 0.35, 0.6))])
    eyes.kind, eyes.certainty = "replace", certainty
    (change,) = account(put(ground(), BOX, (30, 60, 200)), put(ground(), BOX), "replaced", BOX, eyes)
    assert change.kind == kind


def test_what_is_detected_twice_has_another_size_where_the_model_is_sure_by_far():
    cup = [Detected(np.stack([box]), np.array([47]), np.array([0.9], np.float32)) for box in
           (corners(0.1, 0.2, 0.34, 0.55), corners(0.55, 0.2, 0.78, 0.55))]  # fmt: skip
    before, after = put(ground(), BOX), put(ground(), (90, 30, 30, 30))
    eyes = Eyes(cup)
    eyes.kind = "resize"
    assert account(before, after, "replaced", BOX, eyes)[0].kind == "move"
    eyes.certainty = 0.99
    assert account(before, after, "replaced", BOX, eyes)[0].kind == "resize"


def test_of_two_places_the_one_that_the_model_points_at_is_told_first():
    right, empty = (100, 60, 30, 20), ground()
    both = put(put(empty, BOX), right)
    sizes = {BOX: 900, right: 600}
    findings = [Finding(kind="appeared", sentence="", boxes_after=(box,), pixels=sizes[box]) for box in sizes]
    images, seen = (Image.fromarray(empty), Image.fromarray(both)), COLD.copy()
    seen[1, 9:12, 12:14] = 1  # within the smaller one
    for heat, first in ((COLD, BOX), (seen, right)):
        eyes = Eyes()
        change = Account(*images, changed(empty, both), findings, eyes, eyes.kinds, heat).changes()[0]
        assert change.after == pytest.approx([first[0] / 160, first[1] / 120, (first[0] + first[2]) / 160,
                                              (first[1] + first[3]) / 120])  # fmt: skip


def test_a_moved_thing_is_told_from_where_it_was():
    eyes = Eyes()
    eyes.kind = "move"
    before, after = put(ground(), BOX), put(ground(), (90, 60, 30, 30))
    (change,) = account(before, after, "moved", BOX, eyes, box_after=(90, 60, 30, 30))
    assert told([change], (160, 120)) == "something red on the left moved to the right"
