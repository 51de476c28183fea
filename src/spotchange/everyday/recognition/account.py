"""What happened: the comparison's changed places, and what the recognisers see there before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from PIL import Image

from spotchange.comparison import Finding
from spotchange.everyday.kinds import OBJECT_KINDS
from spotchange.everyday.language.colours import COLOURS, main_colour
from spotchange.everyday.language.naming import SHOWN, Name, hot_window
from spotchange.everyday.language.nouns import ROOT
from spotchange.everyday.recognition.detector import Detected, overlaps
from spotchange.everyday.recognition.evidence import Chances, likeness
from spotchange.everyday.recognition.recognisers import Recognisers, Spot, Window
from spotchange.everyday.recognition.signs import LOCAL, Floats, Place
from spotchange.everyday.recognition.traces import Corners, Mask, Traces, hottest
from spotchange.results import Box

_PERSON = 1  # COCO's number
_MOST = 2  # changes that are told
_NEXT = 0.35  # of the first one's weight that a further one must have
UNSEEN = 0.3  # what a changed place weighs where the trained model sees nothing
_SIDE = 0.55  # evidence that a thing is there on one side only
_LIKELY = 0.5  # probability, among changes of things, from which on the trained model's kind is told
SURE = 0.95  # probability from which on it is told against what a detector's boxes say
# Kinds that the model tells from a move in real photos too (what moved it often takes for replaced or turned); and
# kinds at a place where a person was detected that are no posture of one: people come nearer, but not apart.
_NO_MOVE = ("add", "drop", "color", "split", "resize")
_NO_PERSON = ("add", "drop", "color")
_AROUND = 1.3  # times as wide as a box is the window round it
_SAME = 0.45  # likeness of what is seen before and after to be the same thing


@dataclass(frozen=True, kw_only=True)
class SeenChange:
    """One thing that happened to one thing."""

    kind: str | None  # of OBJECT_KINDS; None: it is not clear what
    before: Corners | None  # where, as parts of the image
    after: Corners | None
    thing: Name
    other: Name | None = None  # what took its place
    colour: str | None = None  # that it has now


class Account:
    """Tells what happened between two photos that lie on each other."""

    def __init__(
        self,
        before: Image.Image,
        after: Image.Image,
        mask: Mask,
        findings: Sequence[Finding],
        recognisers: Recognisers,
        kinds: Mapping[str, float],
        heat: Floats,
    ) -> None:
        self.images, self.recognisers = (before, after), recognisers
        self.size = before.size
        self.traces = Traces(np.asarray(before), np.asarray(after), mask)
        self.findings = [each for each in findings if each.kind in LOCAL]
        self.kinds, self.heat = kinds, heat  # what the trained model says: which kind, and where (2, rows, columns)

    @cached_property
    def detected(self) -> list[Detected]:
        """What the detector sees in each image."""
        return self.recognisers.detect(self.images)

    def changes(self) -> list[SeenChange]:
        """What to tell, most important first; empty where no place is known."""
        if not self.findings:
            return []
        told = self._person()
        # A person seen on one side only may be a thing that looked like one there: any kind told for sure goes before.
        if told is not None and self._sure_of(OBJECT_KINDS if told.kind in SHOWN else _NO_PERSON):
            told = None
        if told is None and not self._sure_of(_NO_MOVE):
            told = self._detected_move()
        return [told] if told else self._found()

    def _sure_of(self, kinds: Sequence[str]) -> bool:
        """Whether the trained model says one of these kinds by far."""
        return any(self.kinds.get(kind, 0.0) >= SURE for kind in kinds)

    def _person(self) -> SeenChange | None:
        """People change their whole shape: what changed within them is told of them, not of a coat or an arm."""
        seen = [self._best_person(each) for each in self.detected]
        if seen[0] is None and seen[1] is None:
            return None
        name = Name(noun="person")
        if seen[0] is not None and seen[1] is not None:
            alike = self.traces.same_colours(seen[0], seen[1]) >= 0.5
            return SeenChange(kind="move" if alike else None, before=seen[0], after=seen[1], thing=name)
        side = 0 if seen[0] is not None else 1
        box = seen[side]
        assert box is not None
        other = self.detected[1 - side]
        near = (other.classes == _PERSON) & (overlaps(np.asarray(box, np.float32), other.boxes) > 0.2)
        if near.any():
            return SeenChange(kind="move", before=box, after=box, thing=name)
        gone = side == 0
        return SeenChange(
            kind="drop" if gone else "add", before=box if gone else None, after=None if gone else box, thing=name
        )

    def _best_person(self, found: Detected) -> Corners | None:
        best, weight = None, 0.0
        for box, kind, score in zip(found.boxes, found.classes, found.scores, strict=True):
            if kind != _PERSON or score < 0.4 or self.traces.share(box) < 0.1:
                continue
            part = self.traces.part(box)
            if part >= 0.4 and part * score > weight:
                best, weight = box, part * float(score)
        return best

    def _detected_move(self) -> SeenChange | None:
        """The same kind of thing detected at two places, both of which changed."""
        best: tuple[float, Corners, Corners] | None = None
        old, new = self.detected
        for place, kind in enumerate(old.classes):
            if kind == _PERSON or self.traces.share(old.boxes[place]) < 0.3:
                continue
            for other in np.flatnonzero(new.classes == kind):
                scores = sorted((float(old.scores[place]), float(new.scores[other])))
                if scores[0] < 0.25 or scores[1] < 0.4 or self.traces.share(new.boxes[other]) < 0.3:
                    continue
                apart = overlaps(old.boxes[place], new.boxes[other : other + 1])[0] < 0.55
                part = self.traces.part(old.boxes[place]) + self.traces.part(new.boxes[other])
                if apart and part >= 0.4 and (best is None or part * scores[0] > best[0]):
                    best = part * scores[0], old.boxes[place], new.boxes[other]
        if best is None:
            return None
        _, before, after = best
        return SeenChange(
            kind="move", before=before, after=after, thing=self._named(self._look(((0, before), (1, after))))
        )

    def _look(self, places: Sequence[tuple[int, Corners]]) -> Chances:
        return self.recognisers.look(
            [Spot(self.images[side], self.detected[side], box, self._second(side, box)) for side, box in places]
        )

    def _second(self, side: int, box: Corners) -> Window:
        """Where the trained model points, which frames a thing as in training; if that is elsewhere, the box."""
        x, y, width, height = self.warm[side]
        if box[0] <= x <= box[2] and box[1] <= y <= box[3]:
            return x, y, width, height
        middle, sides = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) * np.array(self.size)
        across, down = _AROUND * float(sides.max()) / np.array(self.size)
        return float(middle[0]), float(middle[1]), float(across), float(down)

    @cached_property
    def warm(self) -> list[Window]:
        """The trained model's hottest place in each image."""
        return [hot_window(each) for each in self.heat]

    def _named(self, looks: Chances, colour: str | None = None) -> Name:
        """All looks at one thing as one name: they are witnesses of the same."""
        together = np.exp(np.log(looks[:, :-1] + 1e-9).mean(axis=0))
        noun = self.recognisers.evidence.noun(together / together.sum())
        return Name(noun=noun, colour=colour if noun == ROOT else None)

    def places(self) -> list[Place]:
        """The comparison's findings, those that weigh most first, with what is seen at their places."""
        if not self.findings:
            return []
        weights = {each: self._weight(each) for each in self.findings}
        first, *others = sorted(self.findings, key=lambda each: -weights[each])
        chosen = [first, *(each for each in others[:_MOST] if weights[each] >= _NEXT * weights[first])]
        boxes = [self._boxes(each) for each in chosen]
        looks = self._look([(side, box) for pair in boxes for side, box in enumerate(pair)])
        found = []
        for number, (finding, pair) in enumerate(zip(chosen, boxes, strict=True)):
            sides = slice(2 * number, 2 * number + 2)
            found.append(Place(finding.kind, finding.pixels, pair, looks[sides]))
        return found

    def _found(self) -> list[SeenChange]:
        """What the trained model says of the largest place where it is sure of another kind than the rules."""
        places = self.places()
        told = [change for change, _ in self._moves_joined([self._judged(each) for each in places])][:_MOST]
        things = {kind: self.kinds.get(kind, 0.0) for kind in OBJECT_KINDS}
        kind = max(things, key=lambda each: things[each])
        likely = things[kind] >= _LIKELY * sum(things.values())
        return [self._learnt(kind, places)] if likely and kind != told[0].kind else told

    def _learnt(self, kind: str, places: Sequence[Place]) -> SeenChange:
        """A change of this kind at the largest place."""
        place = places[0]
        before, after = place.boxes
        if kind == "add":
            name = self._named(place.chances[1:], self._colour(after, 1))
            return SeenChange(kind=kind, before=None, after=after, thing=name)
        if kind == "drop":
            name = self._named(place.chances[:1], self._colour(before, 0))
            return SeenChange(kind=kind, before=before, after=None, thing=name)
        if kind == "move":
            return self._moved(places)
        if kind == "replace":
            old, new = (self._named(place.chances[side : side + 1]) for side in (0, 1))
            return SeenChange(kind=kind, before=before, after=after, thing=old, other=new)
        colour = self._colour(place.box, 1) if kind == "color" else None
        return SeenChange(
            kind=kind, before=before, after=after, thing=self._named(place.chances, colour), colour=colour
        )

    def _moved(self, places: Sequence[Place]) -> SeenChange:
        """From where to where: what the comparison says, else between the two places that look most like one thing."""
        before, after = places[0].boxes
        looks = places[0].chances
        if places[0].kind != "moved" and len(places) > 1:
            ways = ((places[0], places[1]), (places[1], places[0]))
            old, new = max(ways, key=lambda way: self._same_thing(*way))
            before, after = old.boxes[0], new.boxes[1]
            looks = np.stack([old.chances[0], new.chances[1]])
        return SeenChange(kind="move", before=before, after=after, thing=self._named(looks, self._colour(after, 1)))

    def _same_thing(self, old: Place, new: Place) -> float:
        alike = likeness(old.chances[0], new.chances[1])
        return alike + self.traces.same_colours(old.boxes[0], new.boxes[1])

    def _weight(self, finding: Finding) -> float:
        """Its pixels, most of them only where the trained model points into one of its boxes."""
        boxes = map(self._corners, (*finding.boxes_before, *finding.boxes_after))
        return finding.pixels * (UNSEEN + (1 - UNSEEN) * max(hottest(self.heat, box) for box in boxes))

    def _boxes(self, finding: Finding) -> tuple[Corners, Corners]:
        """The place in before and in after; the same for what has only one."""
        first = (finding.boxes_before or finding.boxes_after)[0]
        second = (finding.boxes_after or finding.boxes_before)[0]
        return self._corners(first), self._corners(second)

    def _corners(self, box: Box) -> Corners:
        x, y, width, height = box
        return np.asarray(np.array([x, y, x + width, y + height]) / np.array(self.size * 2), np.float64)

    def _judged(self, place: Place) -> tuple[SeenChange, Chances]:
        """One place's change by rule, and the looks at the thing it is about."""
        (before, after), looks = place.boxes, place.chances
        if place.kind == "moved":
            thing = self._named(looks, self._colour(after, 1))
            return SeenChange(kind="move", before=before, after=after, thing=thing), looks
        lean = {"disappeared": 0.5, "appeared": -0.5}.get(place.kind, 0.0)
        empty = np.log(looks[:, -1] + 1e-3)
        lean += self.traces.outline(before) + 0.15 * float(empty[1] - empty[0])
        if self._named(looks).noun != ROOT:
            lean *= 0.4  # the same name on both sides speaks against coming and going
        if lean >= _SIDE:
            name = self._named(looks[:1], self._colour(before, 0))
            return SeenChange(kind="drop", before=before, after=None, thing=name), looks[:1]
        if lean <= -_SIDE:
            name = self._named(looks[1:], self._colour(after, 1))
            return SeenChange(kind="add", before=None, after=after, thing=name), looks[1:]
        return self._both_there(before, looks), looks

    def _both_there(self, box: Corners, looks: Chances) -> SeenChange:
        """Something before and something after at one place: the same in another colour or pose, or something else."""
        alike = likeness(looks[0], looks[1])
        colours = self.traces.same_colours(box, box)
        if self.traces.same_shape(box) > 0.6 and colours < 0.4:
            was, now = self._colour(box, 0), self._colour(box, 1)
            if was is not None and now is not None and was != now:
                return SeenChange(kind="color", before=box, after=box, thing=self._named(looks), colour=now)
        same = self._named(looks)
        if same.noun == "person":
            return SeenChange(kind="move", before=box, after=box, thing=same)
        if alike >= _SAME and colours >= 0.5 and same.noun != ROOT:
            return SeenChange(kind="turn", before=box, after=box, thing=same)
        old, new = self._named(looks[:1]), self._named(looks[1:])
        if alike < _SAME and (colours < 0.6 or ROOT not in (old.noun, new.noun)):
            return SeenChange(kind="replace", before=box, after=box, thing=old, other=new)
        unsure = same if alike >= _SAME else Name(noun=ROOT)
        return SeenChange(kind=None, before=box, after=box, thing=unsure)

    def _moves_joined(self, told: list[tuple[SeenChange, Chances]]) -> list[tuple[SeenChange, Chances]]:
        """What went at one place and came at another moved, if it looks like the same thing."""
        for first, (gone, old) in enumerate(told):
            for second, (came, new) in enumerate(told):
                if gone.kind != "drop" or came.kind != "add" or gone.before is None or came.after is None:
                    continue
                sizes = sorted(float(np.prod(box[2:] - box[:2])) for box in (gone.before, came.after))
                colours = self.traces.same_colours(gone.before, came.after)
                if sizes[1] < 3 * sizes[0] and (likeness(old[0], new[0]) + colours) / 2 >= 0.45:
                    looks = np.concatenate([old, new])
                    moved = SeenChange(kind="move", before=gone.before, after=came.after, thing=self._named(looks))
                    rest = [each for place, each in enumerate(told) if place not in (first, second)]
                    return [(replace(moved, thing=self._named(looks, gone.thing.colour)), looks), *rest]
        return told

    def _colour(self, box: Corners, side: int) -> str | None:
        colour = main_colour(self.traces.colour_at(box, side))
        return colour if colour != COLOURS[-1] else None
