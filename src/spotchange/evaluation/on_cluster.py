"""A system's answers from a cluster: what a worker does with rows, and answers that are kept until all are there."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spotchange.cluster import ClusterOptions, Line, Resumption, in_order, lines_of
from spotchange.data import Row
from spotchange.errors import InputError
from spotchange.evaluation.predictions import Output, SystemOutputs, fingerprint_of, outputs_from_model

SYSTEM = ("name", "fingerprint", "decoding")  # whose answer a line is


@dataclass(frozen=True, kw_only=True)
class AnswerWork:
    """Rows to answers, each with the name, the weights and the decoding it is due to."""

    system: str
    device: str
    runtime: str
    model_options: Mapping[str, str]
    batch_size: int
    beams: int
    max_words: int

    def start(self) -> Callable[[Sequence[Row]], Iterator[Line]]:
        """Load the model."""
        from spotchange.answering import load
        from spotchange.answering.bulk.spending import with_spending

        # Workers share machines: a core each.
        options = self.model_options
        captioner = load(self.system, device=self.device, threads=1, runtime=self.runtime, model_options=options)
        mark = fingerprint_of(self.system, captioner)

        def answers(rows: Sequence[Row]) -> Iterator[Line]:
            answered = outputs_from_model(
                captioner,
                rows,
                batch_size=self.batch_size,
                beams=self.beams,
                max_words=self.max_words,
                fingerprint=mark,
            )
            system = {name: getattr(answered, name) for name in SYSTEM}
            for row, output in zip(rows, answered.outputs, strict=True):
                yield {"id": row.id, "system": system, **line_of(output)}

        return lambda rows: with_spending(captioner.usage, answers(rows))

    def failed(self, item: Row, reason: str) -> Line:
        """An answer that could not be had: it counts as wrong."""
        return {"id": item.id, **line_of(Output.failed(reason))}

    @cached_property
    def asked(self) -> str:
        """Fingerprint of the model and of how it is asked."""
        from spotchange.answering import CaptionOptions
        from spotchange.answering.bulk.fingerprint import asked_fingerprint

        options = CaptionOptions(beams=self.beams, max_words=self.max_words)
        return asked_fingerprint(self.system, self.model_options, options)

    def settings(self) -> list[str]:
        """The model, how it is asked, and what computes it."""
        return [self.system, self.asked, self.device, self.runtime]

    def names(self, item: Row) -> list[str]:
        """The pair and where it lies; what its references say does not change an answer."""
        return [item.id, str(item.before_path), str(item.after_path)]

    def fingerprint(self, item: Row) -> str | None:
        """Of both images, asked about in this way."""
        from spotchange.answering.bulk.fingerprint import pair_fingerprint

        return pair_fingerprint(self.asked, item.before_path, item.after_path)


def outputs_from_cluster(
    work: AnswerWork,
    rows: Sequence[Row],
    cluster: ClusterOptions,
    *,
    advance: Callable[[int], None],
    kept: Resumption | None,
) -> SystemOutputs:
    """Answers to all rows, in their order."""
    from spotchange.answering import LoadOptions
    from spotchange.answering.bulk.spending import counted, shared_usage

    _, usage = shared_usage(work.system, LoadOptions(device=work.device, model_options=work.model_options), far=True)
    outputs: list[Output] = []
    system: dict[str, Any] = {}
    items = {row.id: row for row in rows}
    for lines in in_order(lines_of(work, items, cluster=cluster, kept=kept, completed=counted(usage))):
        system = system or next((line["system"] for line in lines if "system" in line), {})
        outputs += map(output_of, lines)
        advance(len(lines))
    if not system:
        raise InputError(f"no row could be answered; the first, {rows[0].id!r}: {outputs[0].error}")
    return SystemOutputs(outputs=outputs, usage=usage, **system)


def line_of(output: Output) -> Line:
    """An answer as values of JSON; one that could not be had is a line with an error."""
    values = asdict(output) | {"differences": list(output.differences)}
    if output.heat is not None:
        heat = np.ascontiguousarray(output.heat, dtype="<f4")
        values["heat"] = {"shape": heat.shape, "values": base64.b64encode(heat.tobytes()).decode("ascii")}
    return {name: value for name, value in values.items() if not (name == "error" and value is None)}


def output_of(line: Line) -> Output:
    """What `line_of` gave."""
    values = {name: line[name] for name in Output.__dataclass_fields__ if name in line}
    heat = line["heat"]
    if heat is not None:
        numbers = np.frombuffer(base64.b64decode(heat["values"]), "<f4").astype(np.float32)
        values["heat"] = numbers.reshape(heat["shape"])
    return Output(**values | {"differences": tuple(line["differences"])})
