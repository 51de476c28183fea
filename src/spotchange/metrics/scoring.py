"""All caption metrics at once, for the corpus and for every item."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spotchange.errors import MissingExtraError
from spotchange.metrics.bleu import SMALL, TINY, bleu, bleu_statistics
from spotchange.metrics.cider import SIGMA, cider_d
from spotchange.metrics.inputs import match_ids
from spotchange.metrics.resampling import Summable, bleu_of, mean_of, meteor_of
from spotchange.metrics.rouge import BETA, rouge_l
from spotchange.metrics.sentences import MAX_ORDER, Floats, SentenceTable

TOKENIZER = "ptb-3.4.1-coco"


def signature(references: Mapping[str, Sequence[str]], *, meteor: bool, **more: str | None) -> str:
    """Describe references, tokenizer, metric settings and version in one line.

    Args:
        references: the texts scored against, by id.
        meteor: whether METEOR was computed.
        **more: further facts, such as split and model; those that are None are left out.
    """
    sentences = sum(len(texts) for texts in references.values())
    parts = {
        "refs": f"{len(references)}x{sentences / len(references):.2f}@{references_hash(references)}",
        "tok": TOKENIZER,
        "bleu": f"closest,{TINY:g}/{SMALL:g}",
        "meteor": "1.5-en-norm" if meteor else "absent",
        "rouge-l": f"beta{BETA}",
        "cider-d": f"n{MAX_ORDER},sigma{SIGMA:g},df=refs",
        **{name: text for name, text in more.items() if text is not None},
        # The package itself is loaded by now; an import statement would point up past the layers above metrics.
        "spotchange": sys.modules["spotchange"].__version__,
    }
    return "|".join(f"{name}:{text}" for name, text in parts.items())


def references_hash(references: Mapping[str, Sequence[str]]) -> str:
    """Eight hex digits that change with any id or reference, not with the order of the ids."""
    digest = hashlib.sha256()
    for name in sorted(references):
        for part in (name, *references[name], ""):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:8]


METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")


@dataclass(frozen=True)
class ScoreResult:
    """Scores as fractions; CIDEr-D as pycocoevalcap gives it, where 10 is a perfect match."""

    corpus: dict[str, float]
    items: dict[str, dict[str, float]]
    signature: str
    warnings: list[str] = field(default_factory=list)
    summables: list[Summable] = field(default_factory=list, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "corpus": self.corpus,
            "items": self.items,
            "signature": self.signature,
            "warnings": self.warnings,
        }


class Scorer:
    """Scores captions against a fixed set of references, which it tokenizes once.

    Args:
        references: texts by id.
        meteor: compute METEOR too; None: where its data is installed, else `notes` says how to get it.

    Raises:
        MissingExtraError: METEOR is asked for, and its data is not installed.
    """

    def __init__(self, references: Mapping[str, Sequence[str]], *, meteor: bool | None = None) -> None:
        self.references = {name: list(texts) for name, texts in references.items()}
        self.sentences = {name: token_sentences(texts) for name, texts in self.references.items()}
        self.notes: list[str] = []
        self._meteor = None if meteor is False else self._load_meteor(wanted=meteor is True)
        self._aligned: dict[tuple[str, str], Floats] = {}  # METEOR's statistics of (id, caption)

    @property
    def has_meteor(self) -> bool:
        """Whether METEOR is part of the scores."""
        return self._meteor is not None

    def _load_meteor(self, *, wanted: bool) -> Any:
        try:
            from spotchange.metrics.meteor.metric import Meteor

            return Meteor()
        except MissingExtraError as error:
            if wanted:
                raise
            self.notes.append(f"METEOR is left out: {error.message}")
            return None

    def score(self, predictions: Mapping[str, str], **signature_parts: str | None) -> ScoreResult:
        """Score the captions given; their ids alone make up the evaluation.

        A part of the ids is an evaluation of its own: document frequencies come from their references only.
        """
        ids = list(predictions)
        candidates = token_sentences(predictions.values())
        references = [self.sentences[name] for name in ids]
        table = SentenceTable(candidates, references)
        # Parity: the originals split at blanks only for ROUGE-L, but at any white space for BLEU and CIDEr-D,
        # which matters where a token holds a no-break space.
        split = _split_everywhere(candidates, references)
        words = table if split == (candidates, references) else SentenceTable(*split)
        counts = bleu_statistics(words)
        bleu_corpus, bleu_items = bleu(counts)
        rouge_corpus, rouge_items = rouge_l(table)
        cider_corpus, cider_items = cider_d(words)
        corpus = dict(zip(METRICS[:4], bleu_corpus.tolist(), strict=True))
        columns = dict(zip(METRICS[:4], bleu_items.T, strict=True))
        summables = [bleu_of(counts)]
        if self._meteor is not None:
            corpus["METEOR"], columns["METEOR"], summable = self._score_meteor(ids, candidates)
            summables.append(summable)
        corpus |= {"ROUGE-L": rouge_corpus, "CIDEr-D": cider_corpus}
        columns |= {"ROUGE-L": rouge_items, "CIDEr-D": cider_items}
        summables += [mean_of("ROUGE-L", rouge_items), mean_of("CIDEr-D", cider_items)]
        rows = np.stack(list(columns.values()), axis=1).tolist()
        scored = {name: self.references[name] for name in ids}
        return ScoreResult(
            corpus=corpus,
            items={name: dict(zip(columns, row, strict=True)) for name, row in zip(ids, rows, strict=True)},
            signature=signature(scored, meteor=self.has_meteor, **signature_parts),
            warnings=_empty_warnings(ids, candidates),
            summables=summables,
        )

    def _score_meteor(self, ids: list[str], candidates: list[str]) -> tuple[float, Floats, Summable]:
        """METEOR of an item does not depend on the other items, so a caption is aligned once for all subsets."""
        from spotchange.metrics.meteor.metric import meteor_scores

        keys = list(zip(ids, candidates, strict=True))
        new = [key for key in dict.fromkeys(keys) if key not in self._aligned]
        if new:
            assert self._meteor is not None
            found = self._meteor.statistics([text for _, text in new], [self.sentences[name] for name, _ in new])
            self._aligned |= dict(zip(new, found, strict=True))
        statistics = np.stack([self._aligned[key] for key in keys])
        summable = meteor_of(statistics)
        return float(summable.corpus()[0]), meteor_scores(statistics), summable


def score(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    meteor: bool | None = None,
    allow_missing: bool = False,
) -> ScoreResult:
    """Score captions against references with every metric.

    Args:
        predictions: one caption an id.
        references: one or more texts an id.
        meteor: compute METEOR; None: where its data is installed.
        allow_missing: score the ids that both sides have instead of refusing.
    """
    lists = {name: list(texts) for name, texts in references.items()}
    captions, texts, notes = match_ids(predictions, lists, allow_missing=allow_missing)
    scorer = Scorer(texts, meteor=meteor)
    result = scorer.score(captions)
    result.warnings[:0] = notes + scorer.notes
    return result


def token_sentences(texts: Iterable[str]) -> list[str]:
    """Texts as tokens joined by single blanks, the form that pycocoevalcap's scorers read."""
    from spotchange.metrics.ptb.tokenizer import tokenize_all

    return [" ".join(tokens) for tokens in tokenize_all(texts)]


def _split_everywhere(candidates: list[str], references: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    return (
        [" ".join(sentence.split()) for sentence in candidates],
        [[" ".join(sentence.split()) for sentence in sentences] for sentences in references],
    )


def _empty_warnings(ids: list[str], candidates: list[str]) -> list[str]:
    empty = [name for name, sentence in zip(ids, candidates, strict=True) if not sentence]
    if not empty:
        return []
    return [f"{len(empty)} of {len(ids)} captions hold no word and score 0 (first: id {empty[0]!r})"]


CANDIDATES = 16  # the most frequent sentences compete
SCORED_ITEMS = 500  # enough to rank them; all of a large set would only cost time


@dataclass(frozen=True)
class ConstantCaption:
    """The best caption that never looks, the floor under every table, and where it was chosen."""

    caption: str
    source: str

    def __str__(self) -> str:
        return f"constant: “{self.caption}” (best of the {self.source})"


def best_constant(references: Mapping[str, Sequence[str]], *, source: str, seed: int = 0) -> ConstantCaption:
    """Choose, among the most frequent references, the one that scores the highest CIDEr-D when said of everything.

    Args:
        references: texts by id; those of the training split where there is one, so nothing is chosen on test.
        source: where they are from, for the reader.
        seed: draws the items on which the candidates are compared.
    """
    written = [text for texts in references.values() for text in texts]
    sentences = token_sentences(written)
    how_often = Counter(sentence for sentence in sentences if sentence)
    first_written = dict(zip(reversed(sentences), reversed(written), strict=True))
    frequent = [sentence for sentence, _ in how_often.most_common(CANDIDATES)]
    if not frequent:
        return ConstantCaption("", source)
    scored = _some_items(references, seed)
    scores = [cider_d(SentenceTable([sentence] * len(scored), scored))[0] for sentence in frequent]
    return ConstantCaption(first_written[frequent[int(np.argmax(scores))]], source)


def _some_items(references: Mapping[str, Sequence[str]], seed: int) -> list[list[str]]:
    names = [name for name, texts in references.items() if texts]
    if len(names) > SCORED_ITEMS:
        chosen = np.random.default_rng(seed).choice(len(names), SCORED_ITEMS, replace=False)
        names = [names[place] for place in sorted(chosen)]
    return [token_sentences(references[name]) for name in names]
