"""Hard negatives of generated scenes, made on the device and in ids: no string is touched while training runs.

The three kinds are those of `data.negatives`, which judges a sentence by the true ones. Here the renderer knows what
changed, and since one thing changes a sentence is false as soon as it names another kind of change, another new value,
or an attribute that the changed object does not have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spotchange.errors import DataError
from spotchange.language import EOS_ID, MEANING, SPECIAL_TOKENS, TOKEN_IDS, TOKENS, Claim, decode, read_claim
from spotchange.language.grammar import ANY_OBJECT, SHAPE_WORDS
from spotchange.pairs import CHANGE_TYPES, PairBatch
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, COLORS, MATERIALS

_ALSO_REPLACED = 0.25  # of the other attributes in a sentence whose changed object is already another
_UNSAID = -1


class SceneNegatives:
    """False sentences for the pairs of a batch of the stream, in the words of `scenes.vocabulary`."""

    def __init__(self, captions: Tensor, *, counts: tuple[int, int, int], denials: bool = False) -> None:
        """Learn what there is to retrieve.

        Args:
            captions: (captions, words) of other scenes, begin and end tokens included, padded.
            counts: How many to retrieve, to replace and to confuse; what one kind lacks the others fill up.
            denials: As in `data.negatives`.
        """
        self._counts = counts
        self._captions: Tensor
        self._captions, often = torch.unique(captions, dim=0, return_counts=True)
        claims = [_claim_row(read_claim(decode(row))) for row in self._captions.tolist()]
        self._claims = torch.tensor(claims, device=captions.device)  # (captions, 7)
        kinds = torch.bincount(self._claims[:, 0], minlength=len(CHANGE_TYPES))
        if int((kinds.sum() - kinds).min()) < sum(counts):
            raise DataError(f"{len(self._captions)} captions are too few to find {sum(counts)} false ones for each")
        self._denials = torch.where(self._claims[:, 0] == 0, often, 0).float()
        self._deny = denials and bool(self._denials.any())
        present = self._counted(self._captions)
        rarity = torch.log((1 + len(present)) / (1 + (present > 0).sum(0))) + 1.0
        self._rarity = rarity
        self._vectors = torch.nn.functional.normalize(present * rarity, dim=1)
        self._words = _Words(used=(present > 0).any(0))
        generator = torch.Generator().manual_seed(0)
        self._hash = torch.randint(2**62, (captions.shape[1],), generator=generator).to(captions.device)
        self._keys = self._key(self._captions)

    def __call__(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Ids and mask (pairs, negatives, words)."""
        assert batch.answer is not None
        ids = batch.caption_ids
        truth = torch.cat([batch.change_type[:, None], batch.answer], dim=1)  # (pairs, 7), as claims are
        retrieve, wanted = self._counts[0], sum(self._counts)
        written, good = self._written(ids, truth)
        found = self._retrieved(ids, truth, self._key(written))
        pool = torch.cat([found[:, :retrieve], written, found[:, retrieve:]], dim=1)
        usable = torch.ones(pool.shape[:2], dtype=torch.bool, device=ids.device)
        usable[:, retrieve : retrieve + written.shape[1]] = good
        negatives = _first_where(pool, usable, wanted)
        return negatives, negatives != 0

    def _retrieved(self, ids: Tensor, truth: Tensor, taken: Tensor) -> Tensor:
        """The most similar false captions by TF-IDF, none of those whose keys are `taken`."""
        similarity = (self._counted(ids) * self._rarity) @ self._vectors.T  # (pairs, captions)
        if self._deny:
            # Nothing is like "nothing changed": any change will do, another one each time.
            similarity = torch.where(truth[:, :1] == 0, torch.rand_like(similarity), similarity)
            # The first for a change denies it, in words that are as often true.
            denial = torch.multinomial(self._denials, len(ids), replacement=True)
            similarity.scatter_(1, denial[:, None], torch.inf)
        false = contradicts(self._claims[None], truth[:, None])
        for written in taken.unbind(1):
            false &= written[:, None] != self._keys
        best = similarity.masked_fill(~false, -1.0).topk(sum(self._counts), dim=1).indices
        return self._captions[best]

    def _written(self, ids: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Sentences (pairs, replace + confuse, words) and which of them are of use."""
        _, replace, confuse = self._counts
        reading = _Reading(ids, truth, self._words)
        replaced, replaced_good = reading.replaced(replace + confuse)
        confused, confused_good = reading.confused()
        sentences = torch.cat([replaced[:, :replace], confused, replaced[:, replace:]], dim=1)
        good = torch.cat([replaced_good[:, :replace], confused_good, replaced_good[:, replace:]], dim=1)
        keys = self._key(sentences)
        same = (keys[:, :, None] == keys[:, None]).tril(-1)  # as an earlier one
        good = good & ~(same & good[:, None]).any(2)
        kept = _first_where(sentences, good, replace + confuse)
        return kept, torch.arange(replace + confuse, device=ids.device) < good.sum(1, keepdim=True)

    @staticmethod
    def _counted(ids: Tensor) -> Tensor:
        """How often each word stands in each sentence: (sentences, vocabulary)."""
        counts = torch.zeros(len(ids), len(TOKENS), device=ids.device)
        counts.scatter_add_(1, ids, torch.ones_like(ids, dtype=counts.dtype))
        counts[:, : len(SPECIAL_TOKENS)] = 0
        return counts

    def _key(self, ids: Tensor) -> Tensor:
        return (ids * self._hash).sum(-1)  # wraps round, as a hash may


class _Words:
    """What each word of the vocabulary means, as tables by id."""

    def __init__(self, *, used: Tensor) -> None:
        meanings = [MEANING.get(word) for word in TOKENS]
        kind = [_UNSAID if each is None else ATTRIBUTE_NAMES.index(each[0]) for each in meanings]
        value = [_UNSAID if each is None else ATTRIBUTE_VALUES[ATTRIBUTE_NAMES.index(each[0])].index(each[1])
                 for each in meanings]  # fmt: skip
        self.kind, self.value = torch.tensor(kind, device=used.device), torch.tensor(value, device=used.device)
        self.noun = torch.tensor([word in SHAPE_WORDS or word in ANY_OBJECT for word in TOKENS], device=used.device)
        alike = (self.kind[:, None] == self.kind) & (self.value[:, None] != self.value)
        # Only words that true sentences use: another would give a negative away.
        alike &= (self.kind >= 0) & used
        self.choices = alike.sum(1)
        most = max(1, int(self.choices.max()))
        self.others = alike.int().argsort(dim=1, descending=True)[:, :most]  # what may stand in a word's place, first
        self.opposite = torch.arange(len(TOKENS), device=used.device)
        appeared, disappeared = TOKEN_IDS["appeared"], TOKEN_IDS["disappeared"]
        self.opposite[[appeared, disappeared]] = self.opposite[[disappeared, appeared]]


class _Reading:
    """The parts of a batch's true sentences: "the <subject> [that is left of the <anchor>] turned <new value>"."""

    def __init__(self, ids: Tensor, truth: Tensor, words: _Words) -> None:
        self.ids, self.words, self.answer = ids, words, truth[:, 1:]
        self.kind, noun = words.kind[ids], words.noun[ids]
        place = torch.arange(ids.shape[1], device=ids.device)
        content = (self.kind >= 0) | noun
        self.first, self.first_end = _place_of(content), _place_of(noun) + 1
        later = place >= self.first_end
        self.second, self.second_end = _place_of(content & later), _place_of(noun & later) + 1
        self.two = noun.sum(1) == 2
        self.subject = (self.kind >= 0) & ~later & noun.any(1, keepdim=True)
        is_value = (truth[:, 0] == CHANGE_TYPES.index("color")) | (truth[:, 0] == CHANGE_TYPES.index("texture"))
        self.new_value = (self.kind >= 0) & (ids.roll(-1, 1) == EOS_ID) & is_value[:, None]
        self.place = place.expand_as(ids)

    def replaced(self, count: int) -> tuple[Tensor, Tensor]:
        """One attribute of the changed object, or its new value, is another; perhaps further words as well."""
        choices, most = self.words.choices[self.ids], self.words.others.shape[1]  # (pairs, words)
        sure = torch.arange(most, device=choices.device) < choices[..., None]
        sure &= (self.subject | self.new_value)[..., None]
        # Racing exponentials: every place is as likely as any other, whatever its number of words; none comes twice.
        race = -torch.rand(sure.shape, device=sure.device).log() * choices[..., None]
        times, chosen = race.masked_fill(~sure, torch.inf).flatten(1).topk(count, dim=1, largest=False)
        place, which = chosen // most, chosen % most
        word = self.words.others[self.ids.gather(1, place), which]
        before = self.ids[:, None].expand(-1, count, -1)
        drawn = torch.rand(before.shape, device=before.device)
        other = self.words.others[before, (drawn * choices[:, None]).long()]
        also = (torch.rand(before.shape, device=before.device) < _ALSO_REPLACED) & (choices > 0)[:, None]
        return torch.where(also, other, before).scatter(2, place[..., None], word[..., None]), times.isfinite()

    def confused(self) -> tuple[Tensor, Tensor]:
        """Both objects exchanged; old and new value exchanged; the opposite event."""
        ways = [self._objects_exchanged(), self._values_exchanged(), self._opposite()]
        sentences, good = zip(*ways, strict=True)
        return torch.stack(sentences, dim=1), torch.stack(good, dim=1)

    def _objects_exchanged(self) -> tuple[Tensor, Tensor]:
        place, first, first_end = self.place, self.first, self.first_end
        second, second_end = self.second, self.second_end
        between = first + second_end - second  # where what stands between the two objects now begins
        after = between + second - first_end
        source = torch.where(place < after, place - between + first_end, place - after + first)
        source = torch.where(place < between, place - first + second, source)
        source = torch.where((place < first) | (place >= second_end), place, source)
        anchor = (place >= second) & (place < second_end) & (self.kind >= 0)
        wrong = self.words.value[self.ids] != self.answer.gather(1, self.kind.clamp(min=0))
        good = self.two & (anchor & wrong).any(1)
        return self.ids.gather(1, torch.where(good[:, None], source, place)), good

    def _values_exchanged(self) -> tuple[Tensor, Tensor]:
        new = _place_of(self.new_value)
        old_value = self.subject & (self.kind == self.kind.gather(1, new))
        old = _place_of(old_value)
        sentences = self.ids.scatter(1, new, self.ids.gather(1, old)).scatter(1, old, self.ids.gather(1, new))
        return sentences, self.new_value.any(1) & old_value.any(1)

    def _opposite(self) -> tuple[Tensor, Tensor]:
        sentences = self.words.opposite[self.ids]
        return sentences, (sentences != self.ids).any(1)


def contradicts(claims: Tensor, truth: Tensor) -> Tensor:
    """Whether claims (..., 7) cannot be true: another kind of change, or a stated value that is not so."""
    wrong = (claims[..., 1:] != truth[..., 1:]) & (claims[..., 1:] != _UNSAID)
    return (claims[..., 0] != truth[..., 0]) | wrong.any(-1)


def _claim_row(claim: Claim) -> list[int]:
    """Kind of change, then what is stated in the order of `PairBatch.answer`."""
    stated = {} if claim.subject is None else claim.subject.attributes
    attributes = [
        values.index(stated[name]) if name in stated else _UNSAID
        for name, values in zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, strict=True)
    ]
    new = [values.index(claim.new) if claim.new in values else _UNSAID for values in (COLORS, MATERIALS)]
    return [CHANGE_TYPES.index(claim.change_type), *attributes, *new]


def _place_of(which: Tensor) -> Tensor:
    """(rows, 1): where the first of each row is, 0 where there is none."""
    return which.int().argmax(1, keepdim=True)


def _first_where(rows: Tensor, good: Tensor, count: int) -> Tensor:
    """The first `count` good ones of each row (pairs, candidates, words); where they are too few, others follow."""
    order = torch.sort((~good).to(torch.int8), dim=1, stable=True).indices[:, :count]
    return rows.gather(1, order[..., None].expand(-1, -1, rows.shape[2]))
