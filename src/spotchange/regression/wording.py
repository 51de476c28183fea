"""A model's sentences for what the comparison called changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from spotchange.answering import Answer, CaptionOptions, ImagePair, LoadOptions, load
from spotchange.answering.ignore import without_ignored
from spotchange.errors import SpotchangeError
from spotchange.language import says_no_change
from spotchange.regression.one_pair import ComparedFile, Job

if TYPE_CHECKING:
    from spotchange.answering import Captioner

WORDED_TOGETHER = 16  # pairs that a model is shown at a time; a server that is asked about more at once is shown more


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The model that words what changed, not loaded yet: every worker of a cluster loads its own."""

    model: str
    options: LoadOptions

    def start(self) -> Captioner:
        """Load the model."""
        return load(
            self.model,
            device=self.options.device,
            threads=self.options.threads,
            runtime=self.options.runtime,
            model_options=self.options.model_options,
        )

    @cached_property
    def asked(self) -> str:
        """Fingerprint of the model and of how it is asked."""
        from spotchange.answering.bulk.fingerprint import asked_fingerprint

        return asked_fingerprint(self.model, self.options.model_options, CaptionOptions())


def in_words(results: Iterable[tuple[ComparedFile, Job]], captioner: Captioner) -> Iterator[ComparedFile]:
    """The model's sentences for what the comparison called changed, some pairs at a time, in order."""
    results = iter(results)
    together = max(WORDED_TOGETHER, captioner.answerer.card.at_once)
    while part := list(islice(results, together)):
        changed = [(each, job) for each, job in part if each.status == "changed"]
        pairs = [_shown(job) for _, job in changed]
        answers = captioner.answer_many(pairs, options=CaptionOptions(), batch_size=together, keep_errors=True)
        worded = {each.name: _worded(each, answer) for (each, _), answer in zip(changed, answers, strict=True)}
        yield from (worded.get(each.name, each) for each, _ in part)


def _shown(job: Job) -> tuple[Path, Path | Image.Image]:
    """What the model looks at: rectangles that are not compared are not worded either."""
    if not job.options.ignore:
        return job.before, job.after
    return job.before, without_ignored(ImagePair.of(job.before, job.after), job.options.ignore).after.pil


def _worded(compared: ComparedFile, answer: Answer | SpotchangeError) -> ComparedFile:
    """The model's sentence, if the model sees a change too; the verdict stands, and so does the comparison's sentence
    where the model has none."""
    assert compared.result is not None
    if isinstance(answer, SpotchangeError):
        warning = f"the model did not word this: {answer.message}"
        return replace(compared, result=replace(compared.result, warnings=(*compared.result.warnings, warning)))
    worded = answer.result
    if worded.source == "vlm" and (not worded.changed or says_no_change(worded.caption)):
        # It was asked and sees nothing, whatever its score: its warning says so.
        return replace(
            compared, result=replace(compared.result, warnings=(*compared.result.warnings, *worded.warnings))
        )
    if not worded.changed or worded.source == "pixels":
        return compared
    result = replace(
        compared.result,
        caption=worded.caption,
        alternatives=worded.alternatives,
        differences=worded.differences,
        change_type=worded.change_type or compared.result.change_type,
        familiarity=worded.familiarity,
        source=worded.source,
        model=worded.model,
        warnings=(*compared.result.warnings, *worded.warnings),
        seconds=round(compared.result.seconds + worded.seconds, 4),
    )
    return replace(compared, result=result)
