"""Looking at held-out pairs now and then: losses, captions and their scores, retrieval; the same pairs each time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from spotchange.errors import ConfigError
from spotchange.language import says_no_change
from spotchange.metrics import Scorer
from spotchange.models.interface import DecodingOptions
from spotchange.pairs import CHANGE_TYPES
from spotchange.training.objectives.base import Objective, in_full_precision
from spotchange.training.sources.interface import HeldOut

# Of these names less is better; of every other more.
_LOSSES = ("loss", "words", "contrast", "attributes", "mask", "change", "answer", "median_rank", "mean_rank")


def less_is_better(metric: str) -> bool:
    """Whether it is a loss or a rank."""
    return metric.rpartition(".")[2] in _LOSSES


class Selection:
    """Watches one validation metric; `gave_up` after `patience` validations in a row without a better value.

    With `equal_is_better` a value as good as the best counts as better; up to the step `keep_after` nothing does.
    """

    def __init__(
        self, metric: str, *, patience: int | None, equal_is_better: bool = False, keep_after: int = 0
    ) -> None:
        self.metric = metric
        self.patience = patience
        self.equal_is_better = equal_is_better
        self.keep_after = keep_after
        self.best: float | None = None
        self.best_step = 0
        self.waited = 0

    def consider(self, results: dict[str, float], step: int) -> bool:
        """Take note of a validation; true if it is the best so far."""
        if self.metric not in results:
            raise ConfigError(f"validation.metric '{self.metric}' is not measured; there are: {', '.join(results)}")
        value = results[self.metric]
        sign = -1.0 if less_is_better(self.metric) else 1.0
        if 0 < step <= self.keep_after or math.isnan(value) or not self._better(sign * value, sign):
            self.waited += 1
            return False
        self.best, self.best_step, self.waited = value, step, 0
        return True

    def _better(self, value: float, sign: float) -> bool:
        if self.best is None:
            return True
        return value > sign * self.best or (self.equal_is_better and value == sign * self.best)

    @property
    def gave_up(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """What resuming needs."""
        return {"best": self.best, "best_step": self.best_step, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.best, self.best_step, self.waited = state["best"], state["best_step"], state["waited"]


SHOWN = ("BLEU-4", "ROUGE-L", "CIDEr-D")


class Validator:
    """Evaluates an objective on the held-out pairs."""

    def __init__(self, held_out: HeldOut, *, decode: Callable[[list[int]], str], max_words: int) -> None:
        self.held_out = held_out
        self.decode = decode
        self.options = DecodingOptions(method="greedy", max_words=max_words)
        self._scorer: Scorer | None = None
        self.said: list[dict[str, Any]] = []
        """Of the last validation: every pair's caption with its references, kind of change and, if known, its truth."""

    @torch.no_grad()
    def evaluate(self, objective: Objective) -> dict[str, float]:
        """Numbers by name; all of them means over the held-out pairs."""
        objective.eval()
        results = self._losses(objective)
        if objective.ranks:
            results |= self._retrieval(objective)
        if objective.speaks:
            # In full precision: users decode with fp32 weights, and a rounded score must not choose another word.
            with torch.autocast(self.held_out.batches[0].change_type.device.type, enabled=False):
                results |= self._captions(objective)
        return results

    def _losses(self, objective: Objective) -> dict[str, float]:
        totals: dict[str, Tensor] = {}
        for batch in self.held_out.batches:
            # `forward` itself: the compiled version is for training's shapes and mode.
            for name, value in objective.forward(batch).items():
                totals[name] = totals.get(name, 0) + value.float() * len(batch)
        pairs = sum(map(len, self.held_out.batches))
        return {name: float(value) / pairs for name, value in totals.items()}

    def _retrieval(self, objective: Objective) -> dict[str, float]:
        """Pair to text and back over all held-out change pairs; equal captions all count as right, ties as half."""
        pairs, texts, keys = [], [], []
        for batch in self.held_out.batches:
            ranked = batch[batch.change_type != 0]
            pairs.append(objective.seen_embedding(ranked).float())
            texts.append(objective.model.embed_text(ranked.caption_ids, ranked.caption_mask).float())
            keys += ranked.caption_ids.tolist()
        with in_full_precision(pairs[0]):
            similarity = torch.cat(pairs) @ torch.cat(texts).T
        numbers = {key: number for number, key in enumerate(dict.fromkeys(map(tuple, keys)))}
        same = torch.tensor([numbers[tuple(key)] for key in keys], device=similarity.device)
        right = same[:, None] == same[None, :]
        to_text, to_pair = _ranks(similarity, right), _ranks(similarity.T, right)
        cutoffs = (1, 5, 10)
        found = {f"R@{cutoff}": float((to_text <= cutoff).float().mean()) for cutoff in cutoffs}
        return found | {f"text_R@{cutoff}": float((to_pair <= cutoff).float().mean()) for cutoff in cutoffs}

    def say(self, objective: Objective, batch: Any) -> tuple[list[str], Tensor | None]:
        """What the model says of each pair, and its change head's answers where it has one."""
        state = objective.encode(batch.before, batch.after)
        generated = objective.model.generate(state, self.options)
        captions = [self.decode(ids) for ids in generated.ids[:, 0].tolist()]
        return captions, objective.model.change_logits(state)

    def _captions(self, objective: Objective) -> dict[str, float]:
        captions: list[str] = []
        kinds_right, changed_right = [], []
        for batch in self.held_out.batches:
            sentences, logits = self.say(objective, batch)
            captions += sentences
            if logits is not None:
                kinds, known = logits.argmax(dim=-1), batch.change_type >= 0
                if logits.shape[-1] > 2:  # else it classifies whether there is a change, not which
                    kinds_right.append((kinds == batch.change_type)[known])
                changed_right.append(((kinds != 0) == (batch.change_type != 0))[known])
        if self._scorer is None:
            self._scorer = Scorer({str(i): texts for i, texts in enumerate(self.held_out.references)}, meteor=False)
        corpus = self._scorer.score({str(i): text for i, text in enumerate(captions)}).corpus
        results = {name: corpus[name] for name in SHOWN}
        if kinds_right:
            results["type_accuracy"] = float(torch.cat(kinds_right).float().mean())
        if changed_right:
            results["changed_accuracy"] = float(torch.cat(changed_right).float().mean())
        kinds_told = torch.cat([batch.change_type for batch in self.held_out.batches]).tolist()
        said = [
            says_no_change(text) == (kind == 0) for text, kind in zip(captions, kinds_told, strict=True) if kind >= 0
        ]
        if said:
            results["said_accuracy"] = sum(said) / len(said)
        if self.held_out.check is not None:
            true = self.held_out.check(captions)
            results["fact_accuracy"] = sum(true) / len(true)
            # Apart, because whoever always says "no change" has half of all facts right and none of these.
            of_changes = [right for right, kind in zip(true, kinds_told, strict=True) if kind != 0]
            results["change_facts"] = sum(of_changes) / max(1, len(of_changes))
        self._keep(captions, kinds_told, None if self.held_out.check is None else true)
        return results

    def _keep(self, captions: list[str], kinds: list[int], true: list[bool] | None) -> None:
        self.said = [
            {
                "id": str(number),
                "caption": caption,
                "references": self.held_out.references[number],
                "change_type": CHANGE_TYPES[kind] if 0 <= kind < len(CHANGE_TYPES) else None,
                "fact": None if true is None else bool(true[number]),
            }
            for number, (caption, kind) in enumerate(zip(captions, kinds, strict=True))
        ]


def _ranks(similarity: Tensor, right: Tensor) -> Tensor:
    """The place of each query's best right answer, from 1; wrong answers that tie with it count half.

    So that a model which gives all images one embedding has the middle rank, not the first.
    """
    best = similarity.masked_fill(~right, float("-inf")).amax(dim=1, keepdim=True)
    ahead, ties = (similarity > best) & ~right, (similarity == best) & ~right
    return 1 + ahead.sum(dim=1) + ties.sum(dim=1) / 2
