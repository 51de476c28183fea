"""What IDC-PCL's objectives share: the model must be one, and images may come as features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.errors import ConfigError
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import VisualState
from spotchange.models.vision.grid_features import GridFeatures
from spotchange.training.objectives.base import Objective


class PclObjective(Objective):
    """An objective around IDC-PCL."""

    model: IdcPcl

    def __init__(self, model: nn.Module, **normalisation: tuple[float, ...]) -> None:
        if not isinstance(model, IdcPcl):
            raise ConfigError("this objective trains idc-pcl only: set model.architecture, or a preset such as idc-pcl")
        super().__init__(model, **normalisation)

    def see(self, before: Tensor, after: Tensor, *, shares_before: bool = False) -> Tensor:
        """Grid features (pairs, 2, cells, channels) of byte images, or from disk, as the model reads them.

        With `shares_before` rows 2k and 2k + 1 have the same image before, and the network sees it once.
        """
        if not before.is_floating_point():
            encoder = self.model.encoder
            if shares_before and isinstance(encoder, GridFeatures):
                cells = encoder.of_images(self.normalise(torch.cat([before[::2], after])))
                scenes = len(before) // 2
                both = torch.stack([cells[:scenes].repeat_interleave(2, dim=0), cells[scenes:]], dim=1)
                return self.model.prepared(both)
            return self.model.see(self.normalise(before), self.normalise(after))
        cells = torch.stack([before, after], dim=1)
        # Features lie in half precision on disk; autocast chooses its own, everything else wants fp32.
        return self.model.prepared(cells if torch.is_autocast_enabled(cells.device.type) else cells.float())

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """The model's view of both images."""
        return self.model.encode_cells(self.see(before, after))
