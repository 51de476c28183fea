"""After L2C (Yan et al. 2021): a graph of parts for each image, the graphs compared, an LSTM that attends to both.

In the spirit of the paper, of which a summary is known. Guessed: cells of a coarse grid as the parts, attention as
the graph's edges, a node minus its best match as the comparison. The paper trains single-image captions (CUB) beside
it, which CLEVR-Change and satellites do not have: left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.models.baselines.attention import AddedAttention
from spotchange.models.baselines.cells import CellConv, pooled, pooled_grid, with_coordinates
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.matching import salient
from spotchange.models.baselines.skeleton import Seen


class L2c(LstmSystem):
    """After L2C."""

    title = "after L2C"
    swap = 0.0  # its data have no distractors

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 2,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        pool: int = 2,
    ) -> None:
        super().__init__()
        self.full_grid, self.pool, self.grid = grid, pool, pooled_grid(grid, pool)
        self.nodes = CellConv(channels + 2, width)
        self.graph = nn.ModuleList(AddedAttention(width, heads) for _ in range(layers))
        self.compared = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.1))
        self.speaker = LstmSpeaker(2 * width, vocabulary, word=word, hidden=hidden, dropout=dropout, memory=width)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        nodes = torch.cat(
            [
                self.nodes(with_coordinates(pooled(each, self.full_grid, self.pool), self.grid))
                for each in (before, after)
            ]
        )
        for layer in self.graph:
            nodes = layer(nodes, nodes)
        first, second = nodes.chunk(2)
        other = torch.cat([second, first])
        match = (nodes @ other.transpose(1, 2) / nodes.shape[-1] ** 0.5).softmax(dim=-1) @ other
        apart = nodes - match
        compared = self.compared(torch.cat([nodes, apart], dim=-1))
        context = torch.cat(salient(apart, compared).chunk(2), dim=-1)
        return {"memory": torch.cat(compared.chunk(2), dim=1), "context": context}
