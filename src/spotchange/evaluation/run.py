"""A data set, a system and what to compare it with, in; one Evaluation out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spotchange.data import Row
from spotchange.data.protocols import get_protocol
from spotchange.evaluation.facts import ON_TRUST, Scenes, read_scenes, scene_of
from spotchange.evaluation.judging.judge import Judge
from spotchange.evaluation.judging.scores import Judged, judge_outputs
from spotchange.evaluation.predictions import SystemOutputs, constant_outputs, outputs_of
from spotchange.evaluation.published import PublishedRow, published_rows
from spotchange.evaluation.retrieval import can_retrieve, retrieval
from spotchange.evaluation.rows import WHOLE, ScoredSplit
from spotchange.evaluation.scorecard import SystemEvaluation, groups_of, score_system
from spotchange.metrics import ConstantCaption, PairedComparison, Scorer, paired_comparison
from spotchange.storage import as_place

SCHEMA_VERSION = 1
RETRIEVAL_RULES = "best-right-answer,ties-half+clip4idc-caption-groups"


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What `spotchange evaluate` may be asked for."""

    split: str = "val"
    compare: str | None = None
    published: str | None = None
    retrieval: bool = False
    limit: int | None = None
    protocol: str | None = None
    """How the set's papers make references of its sentences (see `data.protocols`); None: each as it stands."""
    device: str = "auto"
    runtime: str = "auto"
    batch_size: int = 16
    beams: int = 3
    """Sentences kept while searching; 1: greedy decoding, as published."""
    max_words: int = 32
    """Longest caption in tokens: a part of the published protocols (22, 32, 64 or 76)."""
    seed: int = 0
    meteor: bool | None = None
    """None: where its data is installed."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One or two systems on one split, with the constant caption below them and the papers beside them."""

    data_set: str
    split: str
    rows: list[Row]
    systems: list[SystemEvaluation]
    constant: SystemEvaluation
    constant_caption: ConstantCaption
    comparison: dict[str, PairedComparison] | None
    published: list[PublishedRow]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The evaluation as plain JSON values: scores as fractions, published rows in percent as printed."""
        return {
            "schema_version": SCHEMA_VERSION,
            "data_set": self.data_set,
            "split": self.split,
            "pairs": len(self.rows),
            "systems": [system.as_dict(self.rows) for system in self.systems],
            "constant": self.constant.as_dict(self.rows, items=False)
            | {"caption": self.constant_caption.caption, "source": self.constant_caption.source},
            "comparison": self.comparison and {name: asdict(each) for name, each in self.comparison.items()},
            "published": [asdict(row) for row in self.published],
            "notes": self.notes,
        }


def evaluate(
    system: str,
    data_set: str | Path,
    options: EvaluationOptions | None = None,
    *,
    answer: Callable[[str, Sequence[Row]], SystemOutputs] | None = None,
    judge: Judge | None = None,
) -> Evaluation:
    """Evaluate a system on one split of a data set.

    Args:
        system: a model folder, "bundled", or a file of captions.
        data_set: a folder of splits, a folder of tar shards, one of them, or a pattern such as val-*.tar.
        options: what else is wanted.
        answer: how a system answers rows; by default `outputs_of` with the options.
        judge: matches every caption against the pair's list of differences.
    """
    options = options or EvaluationOptions()
    beside = published_rows(options.published) if options.published else []
    protocol = get_protocol(options.protocol) if options.protocol else None
    scored = ScoredSplit.of(as_place(data_set), options.split, protocol)
    options = replace(options, split=scored.split)
    wordless = scored.wordless() if options.limit is None else []
    rows = scored.rows(options.limit) + wordless
    constant = scored.constant(rows)
    scorer = Scorer({row.id: row.captions for row in rows}, meteor=options.meteor)
    if answer is None:
        answer = _answerer(options)
    scenes = read_scenes(rows)
    notes = list(scorer.notes)
    if wordless:
        notes.append(f"{len(wordless)} pairs have no sentence and score 0 against an empty reference, as published")
    if any(row.facts and scene_of(row, scenes) is None for row in rows):
        notes.append(ON_TRUST)
    groups = groups_of(rows).items()
    alike = [kind for kind, numbers in groups if len({frozenset(rows[number].captions) for number in numbers}) == 1]
    if alike:
        kinds = ", ".join(map(repr, alike))
        notes.append(f"CIDEr-D of {kinds} is 0 by construction: all pairs of the kind have the same references")
    systems = []
    for name in [system, *([options.compare] if options.compare else [])]:
        answered = answer(name, rows)
        ranked = _retrieve(answered, rows, options, notes)
        judged = judge_outputs(judge, rows, answered.outputs, scenes) if judge is not None else None
        notes += _missing(answered, rows) + (judged.notes(answered.name) if judged else [])
        signed = None if judge is None else judge.signature
        systems.append(_scored(rows, answered, scorer, scenes, data_set, options, ranked, judged, signed))
    for each in systems:
        notes += [f"{each.name}: {warning}" for warning in each.warnings]
    return Evaluation(
        data_set=as_place(data_set).resolve().name,
        split="all rows" if options.split == WHOLE else options.split,
        rows=rows,
        systems=systems,
        constant=_scored(rows, constant_outputs(constant, rows), scorer, scenes, data_set, options, None),
        constant_caption=constant,
        comparison=_compare(systems, options.seed),
        published=beside,
        notes=notes,
    )


def _answerer(options: EvaluationOptions) -> Callable[[str, Sequence[Row]], SystemOutputs]:
    def answer(name: str, rows: Sequence[Row]) -> SystemOutputs:
        return outputs_of(
            name,
            rows,
            device=options.device,
            runtime=options.runtime,
            batch_size=options.batch_size,
            beams=options.beams,
            max_words=options.max_words,
        )

    return answer


def _retrieve(
    answered: SystemOutputs, rows: Sequence[Row], options: EvaluationOptions, notes: list[str]
) -> dict[str, dict[str, float]] | None:
    if not options.retrieval:
        return None
    if answered.captioner is None or not can_retrieve(answered.captioner):
        notes.append(f"{answered.name} cannot rank captions: no retrieval scores for it")
        return None
    return retrieval(answered.captioner, rows, batch_size=options.batch_size)


def _scored(
    rows: Sequence[Row],
    answered: SystemOutputs,
    scorer: Scorer,
    scenes: Scenes,
    data_set: str | Path,
    options: EvaluationOptions,
    ranked: dict[str, dict[str, float]] | None,
    judged: Judged | None = None,
    judge: str | None = None,
) -> SystemEvaluation:
    model = f"{answered.name}@{answered.fingerprint}" if answered.fingerprint else answered.name
    parts = {
        "data": as_place(data_set).resolve().name,
        "split": "all" if options.split == WHOLE else options.split,
        "limit": str(options.limit) if options.limit else None,
        "protocol": options.protocol,
        "retrieval": None if ranked is None else RETRIEVAL_RULES,
        "model": model,
        "decoding": answered.decoding,
        "judge": judge,
        "differences": None if judged is None else "+".join(judged.sources).replace(" ", "-"),
    }
    return score_system(
        rows,
        answered,
        scorer,
        scenes=scenes,
        seed=options.seed,
        signature_parts=parts,
        retrieval=ranked,
        judged=judged,
    )


def _missing(answered: SystemOutputs, rows: Sequence[Row]) -> list[str]:
    """What is to be known about pairs that have no answer."""
    failed = [
        (row.id, output.error) for row, output in zip(rows, answered.outputs, strict=True) if output.error is not None
    ]
    if not failed:
        return []
    told = f"{len(failed)} of {len(rows)} pairs have no usable answer and count as wrong"
    return [f"{answered.name}: {told}; the first, {failed[0][0]}: {failed[0][1]}"]


def _compare(systems: list[SystemEvaluation], seed: int) -> dict[str, PairedComparison] | None:
    if len(systems) < 2:
        return None
    first, second = (system.summables for system in systems)
    return paired_comparison(first, second, seed=seed)
