"""Everyday images: a verdict and its place from both images, then a second look that names the thing, or hedges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from PIL import Image

from spotchange.answering.calibration import Calibration
from spotchange.answering.ignore import without_heat, without_ignored
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Heat
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import answer_identical
from spotchange.answering.regions import boxes_of
from spotchange.answering.runtimes.interface import Encoded, Floats, NamingRuntime
from spotchange.everyday.kinds import OBJECT_KINDS
from spotchange.everyday.language.naming import SHOWN, Name, fill, hot_window, name_of
from spotchange.everyday.language.nouns import NounTree, everyday_nouns
from spotchange.everyday.language.wording import FRAMES, frame_kind, plain_frame
from spotchange.everyday.recognition.evidence import softmax
from spotchange.everyday.recognition.recognisers import cut_window
from spotchange.models.interface import DecodingOptions
from spotchange.results import Alternative, CaptionResult, Region

_HOT = 0.5


@dataclass(frozen=True, kw_only=True)
class SeenThing:
    """What the second look made of one image's window: probabilities of nouns and of colours."""

    nouns: Floats
    colours: Floats


class EverydayAnswerer:
    """A model of everyday images with its calibration."""

    def __init__(self, runtime: NamingRuntime, *, calibration: Calibration) -> None:
        self.runtime, self.calibration = runtime, calibration

    @property
    def card(self) -> AnswererCard:
        return self.runtime.card

    @property
    def workers(self) -> int:
        return self.runtime.workers

    def set_threads(self, count: int) -> None:
        self.runtime.set_threads(count)

    @cached_property
    def tree(self) -> NounTree:
        """The nouns it may say."""
        return everyday_nouns()

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        """One answer per pair; identical pixels never reach the network."""
        started = time.perf_counter()
        masked = [without_ignored(pair, options.ignore) for pair in pairs]
        seen = [pair for pair in masked if not pair.identical]
        answered = iter(self._run(seen, options) if seen else [])
        answers = [answer_identical(pair) if pair.identical else next(answered) for pair in masked]
        seconds = round((time.perf_counter() - started) / max(1, len(pairs)), 4)
        name = self.card.name
        return [replace(each, result=replace(each.result, seconds=seconds, model=name)) for each in answers]

    def _run(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        encoded = self.runtime.encode([pair.before.pil for pair in pairs], [pair.after.pil for pair in pairs])
        assert encoded.change_logits is not None
        scores = self.calibration.change_scores(encoded.change_logits)
        threshold = self.calibration.threshold if options.threshold is None else options.threshold
        heat = [without_heat(encoded.heat[place], pair.before.size, options.ignore) for place, pair in enumerate(pairs)]
        kinds = [
            self._kind(encoded.change_logits[place], bool(scores[place] >= threshold)) for place in range(len(pairs))
        ]
        frames = self._frames(encoded, kinds, heat, options)
        things = self._look_again(pairs, kinds, heat)
        return [
            self._result(pair, float(scores[place]), kinds[place], frames[place], things[place], heat[place])
            for place, pair in enumerate(pairs)
        ]

    def _kind(self, logits: Floats, changed: bool) -> str:
        return self.card.change_types[1 + int(np.argmax(logits[1:]))] if changed else "none"

    def _frames(
        self, encoded: Encoded, kinds: list[str], heat: list[Heat], options: CaptionOptions
    ) -> list[list[Alternative]]:
        """Frames that say the kind the change head found, best first; a plain one where the captioner says none."""
        if all(kind == "none" for kind in kinds):
            return [[Alternative(text=FRAMES["none"][0], score=0.0)] for _ in kinds]
        beams = max(3, options.beams)
        decoding = DecodingOptions(method="beam", beams=beams, candidates=beams, max_words=options.max_words)
        written = self.runtime.generate(encoded, decoding)
        frames = []
        for candidates, kind, warm in zip(written, kinds, heat, strict=True):
            fitting = [each for each in candidates if frame_kind(each.text) == kind]
            plain = Alternative(text=plain_frame(kind, warm), score=candidates[0].score)
            frames.append(fitting or [plain])
        return frames

    def _look_again(self, pairs: Sequence[ImagePair], kinds: list[str], heat: list[Heat]) -> list[dict[int, SeenThing]]:
        """For every pair what is seen in the windows of its images, by side; nothing where nothing has a place."""
        wanted: list[tuple[int, int]] = []
        windows: list[Image.Image] = []
        for place, (pair, kind) in enumerate(zip(pairs, kinds, strict=True)):
            if kind not in OBJECT_KINDS:
                continue
            for side, image in enumerate((pair.before, pair.after)):
                if SHOWN.get(kind, (True, True))[side]:
                    wanted.append((place, side))
                    windows.append(cut_window(image.pil, hot_window(heat[place][side])))
        found: list[dict[int, SeenThing]] = [{} for _ in pairs]
        if windows:
            nouns, colours = self.name_windows(windows)
            for (place, side), noun, colour in zip(wanted, nouns, colours, strict=True):
                found[place][side] = SeenThing(nouns=noun, colours=colour)
        return found

    def name_windows(self, windows: Sequence[Image.Image]) -> tuple[Floats, Floats]:
        """Calibrated probabilities of nouns and colours for images of single things."""
        nouns, colours = self.runtime.name_windows(windows)
        warm = softmax(nouns / self.calibration.noun_temperature)
        return warm.astype(np.float32), softmax(colours).astype(np.float32)

    def _result(
        self,
        pair: ImagePair,
        score: float,
        kind: str,
        frames: list[Alternative],
        things: dict[int, SeenThing],
        heat: Heat,
    ) -> Answer:
        thing, other = self._names(kind, things)
        texts = [
            Alternative(
                text=fill(each.text, thing, other, with_colour=kind != "color") if thing else each.text,
                score=each.score,
            )
            for each in frames
        ]
        changed = kind != "none"
        result = CaptionResult(
            caption=texts[0].text,
            changed=changed,
            change_score=round(score, 4),
            change_type=kind,
            alternatives=tuple(each for each in texts[1:] if each.text != texts[0].text),
            regions=regions_of(heat, pair) if kind in OBJECT_KINDS else (),
        )
        return Answer(result=result, heat=heat, pair=pair)

    def _names(self, kind: str, things: dict[int, SeenThing]) -> tuple[Name | None, Name | None]:
        """The thing that changed, and what took its place; what is seen in both images counts together."""
        if not things:
            return None, None

        def named(seen: list[SeenThing]) -> Name:
            nouns = np.mean([each.nouns for each in seen], axis=0)
            colours = np.mean([each.colours for each in seen], axis=0)
            return name_of(
                nouns, colours, self.tree, level=self.calibration.noun_level, colour_level=self.calibration.colour_level
            )

        if kind == "replace":
            return named([things[0]]), named([things[1]])
        return named(list(things.values())), None


def regions_of(heat: Heat, pair: ImagePair) -> tuple[Region, ...]:
    """Boxes round the hot cells of both images; a change with no hot cell is marked at its peak."""
    level = min(_HOT, float(heat.max()))
    before = boxes_of(heat[0], heat[0] >= level, image="before", size=pair.before.size)
    after = boxes_of(heat[1], heat[1] >= level, image="after", size=pair.after.size)
    return (*before, *after)
