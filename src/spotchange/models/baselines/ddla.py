"""After DDLA (Jhamtani, Berg-Kirkpatrick 2018): a latent choice of one cluster of differences for every sentence.

In the spirit of the program, whose clusters (DBSCAN of thresholded pixel differences) cannot survive a moving camera
and need pixels, which cached features do not have: clusters here are the neighbourhoods of the cells that differ most.
As published, attention is masked to the chosen cluster and training sums over the clusters. Guessed: all sizes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv, as_planes, with_coordinates
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.recurrent import RecurrentSteps
from spotchange.models.baselines.skeleton import Reading, Seen, System


class Ddla(System):
    """After DDLA."""

    title = "after DDLA"
    swap = 0.0  # its data have no distractors

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        clusters: int = 4,
    ) -> None:
        super().__init__()
        self.grid, self.clusters = grid, clusters
        self.cells = nn.Sequential(CellConv(2 * channels + 2, width), nn.ReLU())
        self.prior = nn.Linear(width, 1)
        self.speaker = LstmSpeaker(width, vocabulary, word=word, hidden=hidden, dropout=dropout)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        masks = self.cluster_masks(before, after)
        cells = self.cells(torch.cat([before, with_coordinates(after, self.grid)], dim=-1))
        held = masks.to(cells.dtype) @ cells / masks.sum(dim=-1, keepdim=True).to(cells.dtype)
        log_prior = self.prior(held)[..., 0].float().log_softmax(dim=-1)
        return {"memory": held, "log_prior": log_prior, "masks": masks}

    @torch.no_grad()
    def cluster_masks(self, before: Tensor, after: Tensor) -> Tensor:
        """(pairs, clusters, cells): 3x3 cells round each of the largest peaks of the difference."""
        apart = 1 - F.cosine_similarity(before.float(), after.float(), dim=-1)  # (pairs, cells)
        planes = as_planes(apart[..., None], self.grid)
        peak = (planes == F.max_pool2d(planes, 3, stride=1, padding=1)).flatten(1)
        chosen = (apart * peak).topk(self.clusters, dim=1).indices
        spots = apart.new_zeros(*chosen.shape, apart.shape[1]).scatter_(2, chosen[..., None], 1.0).flatten(0, 1)
        around: Tensor = F.max_pool2d(as_planes(spots[..., None], self.grid), 3, stride=1, padding=1)
        result: Tensor = around.flatten(1).unflatten(0, chosen.shape)
        return result

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        """Scores of the mixture: every word under the cluster that the words before it speak for."""
        pairs, clusters = seen["log_prior"].shape
        said = self.speaker(seen["memory"].flatten(0, 1), ids.repeat_interleave(clusters, dim=0))["logits"]
        log_probabilities = said.float().log_softmax(dim=-1).unflatten(0, (pairs, clusters))
        known = log_probabilities[:, :, :-1].gather(3, ids[:, None, 1:, None].expand(-1, clusters, -1, -1))[..., 0]
        so_far = F.pad((known * mask[:, None, 1:]).cumsum(dim=-1), (1, 0))
        # log sum_z p(z | words so far) p(word | z): summed over a sentence this is log sum_z p(z) p(sentence | z).
        belief = (seen["log_prior"][..., None] + so_far).log_softmax(dim=1)
        return {"logits": (belief[..., None] + log_probabilities).logsumexp(dim=1)}

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        best = seen["log_prior"].argmax(dim=1)
        held = seen["memory"][torch.arange(len(best), device=best.device), best]
        return self.speaker.steps(held.repeat_interleave(rows_per_pair, dim=0))

    def heat(self, seen: Seen) -> Tensor:
        held = (seen["log_prior"].exp()[..., None] * seen["masks"]).sum(dim=1)
        return torch.stack([held, held], dim=1)
