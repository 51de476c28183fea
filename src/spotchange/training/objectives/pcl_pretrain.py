"""IDC-PCL's pre-training: one task a step, on pairs, on single images with captions, or on images with classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spotchange.config.objectives import PclPretrainSettings
from spotchange.errors import ConfigError
from spotchange.pairs import PairBatch
from spotchange.training.objectives.pcl_base import PclObjective
from spotchange.training.objectives.pcl_losses import (
    HiddenCells,
    aligned_scores,
    alignment_loss,
    cell_loss,
    class_losses,
    hide_cells,
    hide_words,
    word_loss,
)
from spotchange.training.sources.tasks import CLASSES, FDA, MLM, MVCL, TaskBatch

_FIXED = 7  # seed of what is hidden in validation, so that losses of different steps compare


class PclPretrainObjective(PclObjective):
    """Dispatches a batch to its task; validation on plain pairs measures the masked words."""

    def __init__(self, model: nn.Module, settings: PclPretrainSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        self.settings = settings
        if settings.tasks.mvcl and self.model.cell_head is None:
            raise ConfigError("the task mvcl trains a head this model lacks: set model.heads.pretraining to true")
        self._tasks: dict[str, Any] = {
            MLM: self.masked_words,
            MVCL: self.masked_cells,
            FDA: self.aligning,
            CLASSES: self.classes,
        }

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile every task by itself: which one comes is decided outside the graph."""
        self._tasks = {name: torch.compile(task, *args, **options) for name, task in self._tasks.items()}

    def forward(self, batch: TaskBatch | PairBatch) -> dict[str, Tensor]:
        if isinstance(batch, PairBatch):
            return self.masked_words(TaskBatch(task=MLM, pairs=batch))
        results: dict[str, Tensor] = self._tasks[batch.task](batch)
        return results

    def masked_words(self, batch: TaskBatch) -> dict[str, Tensor]:
        """MLM."""
        pairs = batch.pairs
        hidden = hide_words(
            pairs.caption_ids,
            pairs.caption_mask,
            share=self.settings.masked_words,
            vocabulary=len(self.model.words.words.weight),
            mask_id=self.model.words.mask_id,
            end_id=self.model.special.end,
            generator=self._generator(pairs),
        )
        state = self.model.encode_cells(self._cells(batch))
        outputs = self.model.read_together(state, hidden.ids, pairs.caption_mask)
        logits = self.model.word_logits(outputs, hidden.ids.shape[1])
        return _named(MLM, word_loss(logits, pairs.caption_ids, hidden.chosen))

    def masked_cells(self, batch: TaskBatch) -> dict[str, Tensor]:
        """MVCL."""
        cells = self._cells(batch)
        hidden = hide_cells(cells, share=self.settings.masked_cells, generator=self._generator(batch.pairs))
        return _named(MVCL, self.guess_hidden(cells, hidden, batch.pairs.caption_ids, batch.pairs.caption_mask))

    def guess_hidden(self, cells: Tensor, hidden: HiddenCells, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """The loss of MVCL for cells (N, images, cells, channels) some of which are hidden."""
        state = self.model.encode_cells(hidden.cells)
        outputs = self.model.read_together(state, ids, mask)
        images, count = cells.shape[1:3]
        # An image is [IMG] and its cells.
        at_cells = torch.stack(
            [outputs[:, start : start + count] for start in (1 + which * (1 + count) for which in range(images))],
            dim=1,
        )
        return cell_loss(
            self.model.guess_cells(at_cells[hidden.hidden]),
            cells[hidden.hidden],
            self.model.guess_cells(at_cells[~hidden.hidden]),
            temperature=self.settings.mvcl_temperature,
        )

    def aligning(self, batch: TaskBatch) -> dict[str, Tensor]:
        """FDA."""
        assert batch.negative_ids is not None
        assert batch.negative_mask is not None
        ids = torch.cat([batch.pairs.caption_ids[:, None], batch.negative_ids], dim=1)
        mask = torch.cat([batch.pairs.caption_mask[:, None], batch.negative_mask], dim=1)
        kept = max(1, len(ids) // ids.shape[1]) if self.settings.fda_batch == "texts" else len(ids)
        cells = self._cells(batch)[:kept]
        scores = aligned_scores(self.model, self.model.encode_cells(cells), ids[:kept], mask[:kept])
        return _named(FDA, alignment_loss(scores, temperature=self.settings.fda_temperature))

    def classes(self, batch: TaskBatch) -> dict[str, Tensor]:
        """The three losses of images with classes."""
        heads = self.model.class_heads
        if heads is None or batch.class_ids is None:
            raise ConfigError("the data have classes: set model.heads.classes to how many")
        cells = self.see(batch.pairs.before, batch.pairs.after)  # (N, 2, cells, channels)
        together = self.model.image_outputs(self.model.encode_cells(cells).tokens)
        alone = self.model.images_alone(cells)
        return class_losses(heads, alone, together, batch.class_ids, margin=self.settings.class_margin)

    def _cells(self, batch: TaskBatch) -> Tensor:
        """Both images' cells, or those of the only one."""
        pairs = batch.pairs
        if batch.single:
            return self.see(pairs.before, pairs.before)[:, :1]
        return self.see(pairs.before, pairs.after, shares_before=batch.shares_before)

    def _generator(self, pairs: PairBatch) -> torch.Generator | None:
        if self.training:
            return None
        return torch.Generator(pairs.caption_ids.device).manual_seed(_FIXED)


def _named(task: str, results: dict[str, Tensor]) -> dict[str, Tensor]:
    return {task: results["loss"].detach(), **results}
