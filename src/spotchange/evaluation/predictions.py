"""What a system said about each pair: from a model, from a file of captions, or one sentence for all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spotchange.cluster import ClusterOptions, Resumption
from spotchange.data import Row
from spotchange.errors import InputError, ReplyError, SpotchangeError
from spotchange.language import change_type_of, says_no_change
from spotchange.metrics import ConstantCaption, read_results

if TYPE_CHECKING:
    from spotchange.answering import Captioner
    from spotchange.answering.interface import Usage


@dataclass(frozen=True, kw_only=True)
class Output:
    """One pair's answer; `heat` (2, rows, columns) only from models.

    A pair without a usable answer has its `error`, no word and no verdict: it counts as wrong, and as nothing else.
    """

    caption: str
    changed: bool | None
    change_type: str | None
    change_score: float | None = None
    heat: NDArray[np.float32] | None = None
    differences: tuple[str, ...] = ()  # every single one, where the system was asked for all
    error: str | None = None

    @classmethod
    def failed(cls, error: str) -> Output:
        """What stands for an answer that could not be had."""
        return cls(caption="", changed=None, change_type=None, error=error)


@dataclass(frozen=True, kw_only=True)
class SystemOutputs:
    """A system's answers to all rows of an evaluation, in their order."""

    name: str
    outputs: list[Output]
    fingerprint: str | None = None  # of the weights or the file
    decoding: str | None = None
    captioner: Captioner | None = None
    usage: Usage | None = None  # what asking the model took


def is_captions_file(system: str) -> bool:
    """Whether a system is given as a file of captions rather than as a model."""
    return system != "bundled" and Path(system).is_file()


def outputs_of(
    system: str,
    rows: Sequence[Row],
    *,
    device: str = "auto",
    runtime: str = "auto",
    model_options: Mapping[str, str] | None = None,
    batch_size: int = 16,
    beams: int = 3,
    max_words: int = 32,
    advance: Callable[[int], None] = lambda done: None,
    cluster: ClusterOptions | None = None,
    kept: Resumption | None = None,
) -> SystemOutputs:
    """Let a system answer the rows.

    Args:
        system: a model folder, "bundled", or a file of captions such as `spotchange caption --pairs --out` writes.
        rows: the pairs.
        device: where a model computes.
        runtime: what computes it: auto, onnx or torch.
        model_options: settings of a vision-language model.
        batch_size: pairs computed together.
        beams: sentences kept while searching; 1: greedy.
        max_words: longest caption in tokens.
        advance: called with the number of further pairs answered.
        cluster: workers of this cluster answer instead of this process.
        kept: where the cluster's answers lie until all are there, so that a run that is killed goes on.
    """
    if is_captions_file(system):
        answered = outputs_from_file(Path(system), rows)
        advance(len(rows))
        return answered
    if cluster is not None:
        from spotchange.evaluation.on_cluster import AnswerWork, outputs_from_cluster  # here: it needs what stands here

        work = AnswerWork(
            system=system,
            device=device,
            runtime=runtime,
            model_options=dict(model_options or {}),
            batch_size=batch_size,
            beams=beams,
            max_words=max_words,
        )
        return outputs_from_cluster(work, rows, cluster, advance=advance, kept=kept)
    from spotchange.answering import load  # here: captions from a file need no torch

    captioner = load(system, device=device, runtime=runtime, model_options=model_options)
    return outputs_from_model(
        captioner,
        rows,
        batch_size=batch_size,
        beams=beams,
        max_words=max_words,
        advance=advance,
        fingerprint=fingerprint_of(system, captioner),
    )


def outputs_from_model(
    captioner: Captioner,
    rows: Sequence[Row],
    *,
    batch_size: int,
    beams: int,
    max_words: int = 32,
    advance: Callable[[int], None] = lambda done: None,
    fingerprint: str | None = None,
) -> SystemOutputs:
    """Caption every row with a model."""
    from spotchange.answering import CaptionOptions

    pairs = [(row.before_path, row.after_path) for row in rows]
    outputs = []
    options = CaptionOptions(beams=beams, max_words=max_words)
    for answer in captioner.answer_many(pairs, options=options, batch_size=batch_size, keep_errors=True):
        advance(1)
        if isinstance(answer, ReplyError):
            outputs.append(Output.failed(answer.message))
            continue
        if isinstance(answer, SpotchangeError):
            raise answer
        result = answer.result
        outputs.append(
            Output(
                caption=result.caption,
                changed=result.changed,
                change_type=result.change_type,
                change_score=result.change_score,
                heat=answer.heat,
                differences=result.differences,
            )
        )
    # A model that is asked decodes in its own way, and says in what words it was asked.
    decoding = captioner.asked_as or f"{'greedy' if beams == 1 else f'beam{beams}'},{max_words}words"
    return SystemOutputs(
        name=captioner.name,
        outputs=outputs,
        fingerprint=fingerprint,
        decoding=decoding,
        captioner=captioner,
        usage=captioner.usage,
    )


def outputs_from_file(path: Path, rows: Sequence[Row]) -> SystemOutputs:
    """Take captions, and verdicts where there are any, from a file; every row needs one, or an error in its place."""
    errors: dict[str, str] = {}
    results = read_results(path, errors=errors) | {name: {"error": error} for name, error in errors.items()}
    absent = [row.id for row in rows if row.id not in results]
    if absent:
        raise InputError(f"{path}: {len(absent)} of {len(rows)} pairs have no caption, the first is id {absent[0]!r}")
    outputs = [_from_result(results[row.id]) for row in rows]
    fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    return SystemOutputs(name=path.stem, outputs=outputs, fingerprint=fingerprint)


def constant_outputs(constant: ConstantCaption, rows: Sequence[Row]) -> SystemOutputs:
    """The same sentence for every row."""
    return SystemOutputs(name="constant", outputs=[_from_result({"caption": constant.caption})] * len(rows))


def _from_result(result: dict[str, Any]) -> Output:
    """Read a verdict from the sentence where the file has none of its own."""
    if "error" in result:
        return Output.failed(str(result["error"]))
    caption = result["caption"]
    said_changed = not says_no_change(caption)
    changed = result["changed"] if isinstance(result.get("changed"), bool) else said_changed
    given = result.get("change_type")
    score = result.get("change_score")
    return Output(
        caption=caption,
        changed=changed,
        change_type=given if isinstance(given, str) else change_type_of(caption),
        change_score=float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
        differences=tuple(map(str, listed)) if isinstance(listed := result.get("differences"), list) else (),
    )


def fingerprint_of(system: str, captioner: Captioner) -> str:
    """Of a model folder's files; of another answerer, what it says its answers depend on."""
    from spotchange.answering import model_folder
    from spotchange.answering.build import ANSWERERS

    if system.partition(":")[0] in ANSWERERS:
        return hashlib.sha256((captioner.asked_as or captioner.name).encode()).hexdigest()[:8]
    return folder_hash(model_folder(system))


def folder_hash(folder: str | os.PathLike[str]) -> str:
    """Eight hex digits of a model folder's architecture, words and weights."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).glob("*")):
        if path.suffix == ".safetensors" or path.name in ("config.json", "tokenizer.json", "calibration.json"):
            with path.open("rb") as stream:
                digest.update(path.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:8]
