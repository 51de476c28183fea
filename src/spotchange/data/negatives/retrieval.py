"""Hard negatives: sentences nearly like a true one, and false.

Three kinds, as in IDC-PCL: *retrieve* takes the most similar other captions of the set by TF-IDF, *replace* swaps nouns
and adjectives for others of their kind, *confuse* exchanges subjects (animal1 and animal2; the two objects of a
relation; old and new) or turns a position or an event into its opposite. Nothing leaves here that may be true of the
pair, see `falsehood`.

With `denials`, an option of ours, where the set has pairs without a change, one of the retrieved denies that anything
changed. Otherwise such a sentence is true wherever it stands, and half of the task is solved without a look at the
images. For the same reason it comes in the words, and the negatives of such a pair are the changes, that are true of
other pairs.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from spotchange.data.negatives.falsehood import PHRASE, is_false
from spotchange.data.negatives.word_kinds import WordKinds, words_of
from spotchange.errors import DataError
from spotchange.language import MEANING, says_no_change

_FIRST_LOOK = 64  # candidates ordered at first; nearly always enough


class SimilarCaptions:
    """Ranks the captions of a set by cosine similarity of their TF-IDF vectors to a given one."""

    def __init__(self, captions: Sequence[str]) -> None:
        self.captions = list(dict.fromkeys(captions))
        counts = [Counter(words_of(caption)) for caption in self.captions]
        documents: Counter[str] = Counter(word for count in counts for word in count)
        total = len(self.captions)
        # Smoothed, so that a word of every caption still weighs a little.
        self._weight = {word: math.log((1 + total) / (1 + seen)) + 1.0 for word, seen in documents.items()}
        places: dict[str, list[int]] = defaultdict(list)
        values: dict[str, list[float]] = defaultdict(list)
        for number, count in enumerate(counts):
            vector = self._vector(count)
            for word, value in vector.items():
                places[word].append(number)
                values[word].append(value)
        self._postings: dict[str, tuple[Any, Any]] = {
            word: (np.array(places[word]), np.array(values[word], dtype=np.float32)) for word in places
        }

    def similarities(self, caption: str) -> Any:
        """float32 (captions,): cosine with every caption of the set."""
        scores = np.zeros(len(self.captions), dtype=np.float32)
        for word, value in self._vector(Counter(words_of(caption))).items():
            if word in self._postings:
                numbers, values = self._postings[word]
                scores[numbers] += np.float32(value) * values
        return scores

    def ranked(self, caption: str) -> Iterator[str]:
        """Captions of the set, the most similar first, without the caption itself."""
        scores = self.similarities(caption)
        count = min(_FIRST_LOOK, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((best, -scores[best]))]
        yield from (self.captions[number] for number in best if self.captions[number] != caption)
        if count < len(scores):
            order = np.lexsort((np.arange(len(scores)), -scores))
            seen = set(best.tolist())
            yield from (
                self.captions[number]
                for number in order.tolist()
                if number not in seen and self.captions[number] != caption
            )

    def _vector(self, count: Counter[str]) -> dict[str, float]:
        weights = {word: number * self._weight.get(word, 1.0) for word, number in count.items()}
        length = math.sqrt(sum(value * value for value in weights.values())) or 1.0
        return {word: value / length for word, value in weights.items()}


KINDS = ("retrieve", "replace", "confuse")
_MOST_REPLACED = 3
_MOST_OTHERS = 100  # the most frequent words of a kind
_TRIES = 40
_RETRIEVED_FROM = 256  # most similar captions looked at before giving up on retrieving

# Exchanged wherever both stand in a sentence.
_SUBJECTS = (
    ("animal1", "animal2"),
    ("animal 1", "animal 2"),
    ("bird1", "bird2"),
    ("first", "second"),
    ("left", "right"),
)
_OPPOSITES = (
    ("left", "right"), ("appeared", "disappeared"), ("added", "removed"), ("before", "after"), ("more", "fewer"),
    ("larger", "smaller"), ("longer", "shorter"), ("bigger", "smaller"), ("lighter", "darker"), ("top", "bottom"),
    ("front", "back"), ("above", "below"), ("brighter", "darker"), ("higher", "lower"), ("thicker", "thinner"),
)  # fmt: skip
_SYMMETRIC = re.compile(r"\b(?:both|same|similar|alike|identical|each)\b")


class NegativeWriter:
    """Writes false sentences for true ones of a caption set."""

    def __init__(
        self, captions: Sequence[str], *, counts: tuple[int, int, int] = (2, 2, 2), denials: bool = False
    ) -> None:
        """Learn the set's words and captions.

        Args:
            captions: All captions of the training set.
            counts: How many to retrieve, to replace and to confuse; what one kind lacks the others fill up.
            denials: Treat pairs without a change as the module says.
        """
        self.counts, self.denials = counts, denials
        self._similar = SimilarCaptions(captions)
        self._kinds = WordKinds(self._similar.captions)
        self._denials = [
            each for each in captions if denials and says_no_change(each)
        ]  # as often as they are true elsewhere
        self._changes = [each for each in self._similar.captions if not says_no_change(each)]

    def write(
        self,
        caption: str,
        *,
        truths: Sequence[str] = (),
        seed: int = 0,
        false: Callable[[str], bool] | None = None,
    ) -> list[str]:
        """As many different false sentences as `counts` say, for one true `caption`.

        Args:
            caption: The sentence to be like.
            truths: Other sentences that are true of the same pair.
            seed: With the caption it fixes the result.
            false: Decides whether a sentence is false; default: what can be told from the true ones.
        """
        known = [caption, *truths]
        chance = random.Random(f"{seed} {caption}")
        if false is None and says_no_change(caption):
            return self._of_no_change(caption, chance)
        taken = {_plain(each) for each in known}

        def fresh(candidates: Iterator[str], count: int, *, rearranged: bool = False) -> list[str]:
            found: list[str] = []
            for candidate in candidates if count > 0 else ():
                if _plain(candidate) in taken:
                    continue
                if false(candidate) if false else is_false(candidate, known, rearranged=rearranged):
                    taken.add(_plain(candidate))
                    found.append(candidate)
                    if len(found) == count:
                        break
            return found

        wanted = sum(self.counts)
        retrieve, replace, confuse = self.counts
        denial = iter([chance.choice(self._denials)] if self._denials else [])
        result = fresh(denial, min(1, retrieve))
        result += fresh(self.retrieved(caption), retrieve - len(result))
        result += fresh(self.replaced(caption, chance), replace)
        result += fresh(confused(caption), confuse, rearranged=True)
        result += fresh(self.replaced(caption, chance), wanted - len(result))
        result += fresh(self.retrieved(caption), wanted - len(result))
        self._check_enough(result, caption)
        return result

    def _of_no_change(self, caption: str, chance: random.Random) -> list[str]:
        """Sentences of pairs that did change: such a sentence has no nouns to replace, and nothing to confuse.

        With denials any of them, since the same few each time would be known to be false by themselves; else the most
        similar.
        """
        wanted = min(sum(self.counts), len(self._changes))
        if self.denials:
            found = chance.sample(self._changes, wanted)
        else:
            near = (each for each in self._similar.ranked(caption) if not says_no_change(each))
            found = list(islice(near, wanted))
        self._check_enough(found, caption)
        return found

    def _check_enough(self, found: list[str], caption: str) -> None:
        if len(found) < sum(self.counts):
            raise DataError(
                f"only {len(found)} of {sum(self.counts)} false sentences can be made for {caption!r}: "
                f"the set's {len(self._similar.captions)} captions are too few or too alike",
                hint="train on more captions, or leave the task fda out",
            )

    def retrieved(self, caption: str) -> Iterator[str]:
        """Similar captions of the set, the nearest first."""
        yield from islice(self._similar.ranked(caption), _RETRIEVED_FROM)

    def replaced(self, caption: str, chance: random.Random) -> Iterator[str]:
        """The caption with one to three nouns and adjectives swapped for others of their kind."""
        places = [(found.start(), found.end()) for found in re.finditer(r"[\w']+", caption)]
        choices = {}
        for start, end in places:
            others = self._kinds.others(caption[start:end].lower())
            if others:
                choices[start, end] = others[:_MOST_OTHERS]
        if not choices:
            return
        for _ in range(_TRIES):
            count = chance.randint(1, min(_MOST_REPLACED, len(choices)))
            text = caption
            for start, end in sorted(chance.sample(sorted(choices), count), reverse=True):
                text = text[:start] + chance.choice(choices[start, end]) + text[end:]
            yield text


def confused(caption: str) -> Iterator[str]:
    """The caption with subjects exchanged or a position or event turned round, in every way that is known."""
    lower = caption.lower()
    phrases = list(PHRASE.finditer(lower))
    if len(phrases) == 2:
        yield _exchanged(caption, phrases[0].span(), phrases[1].span())
    yield from _old_and_new(caption)
    symmetric = _SYMMETRIC.search(lower) is not None
    for one, other in _SUBJECTS:
        both = re.search(rf"\b{one}\b", lower) and re.search(rf"\b{other}\b", lower)
        if both and not symmetric and f"{one} and {other}" not in lower and f"{other} and {one}" not in lower:
            yield _swapped(caption, one, other)
    for one, other in _OPPOSITES:
        here = set(words_of(caption))
        if (one in here) != (other in here):
            yield _swapped(caption, one, other)


def _old_and_new(caption: str) -> Iterator[str]:
    """ "the red cube turned blue" to "the blue cube turned red"."""
    words = list(re.finditer(r"[\w']+", caption))
    for kind in ("color", "material"):
        named = [word for word in words if MEANING.get(word.group().lower(), ("",))[0] == kind]
        if len(named) >= 2 and named[-1].end() == len(caption.rstrip(" .")):
            yield _exchanged(caption, named[0].span(), named[-1].span())


def _exchanged(text: str, first: tuple[int, int], second: tuple[int, int]) -> str:
    one, other = text[first[0] : first[1]], text[second[0] : second[1]]
    return text[: first[0]] + other + text[first[1] : second[0]] + one + text[second[1] :]


def _swapped(text: str, one: str, other: str) -> str:
    def swap(found: re.Match[str]) -> str:
        return other if found.group().lower() == one else one

    return re.sub(rf"\b(?:{re.escape(one)}|{re.escape(other)})\b", swap, text, flags=re.IGNORECASE)


def _plain(caption: str) -> str:
    return " ".join(words_of(caption))
