"""After NCT (Tu et al. 2023): neighbours' contrast, attention through convolutions, a Transformer over three tokens.

In the spirit of the published code, whose losses and number of weights it has. Guessed, and since seen to be otherwise
there: its projected cells are normed, it looks at neighbours once a layer, its attention has convolutions in the place
of projections, and the cells are added to what that gives before a norm. Labels for its second head (49 dependency
relations of a parser) are a stand-in: what a word and the one after it are. `as_published`: its loader seeds the random
generator for every item, so "before" and distractor are never exchanged (and its labels often belong to another
caption, which is not repeated).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import SplitAttention
from spotchange.models.baselines.cells import CellConv, as_cells, as_planes, grid_positions, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, map_sum, under
from spotchange.models.baselines.skeleton import Reading, Seen
from spotchange.models.baselines.tu_speaker import TuSpeaker, TuSystem
from spotchange.models.baselines.word_labels import RELATIONS, label_loss, part_of_speech, relation


class Neighbours(nn.Module):
    """x + W sum_k softmax_k(cos(theta x, phi n_k)) g n_k over the 3x3 neighbours n_k, the border replicated."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.theta, self.phi, self.g = (CellConv(width, inner) for _ in range(3))
        self.W = CellConv(inner, width)

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        own = F.normalize(self.theta(x), dim=-1)
        keys = _around(F.normalize(self.phi(x), dim=-1), grid)
        values = _around(self.g(x), grid)
        weights = torch.stack([(own * each).sum(dim=-1) for each in keys], dim=-1).float().softmax(dim=-1)
        mixed = sum(weights[..., k, None].to(x.dtype) * each for k, each in enumerate(values))
        result: Tensor = x + self.W(mixed)
        return result


def _around(x: Tensor, grid: tuple[int, int]) -> list[Tensor]:
    """The cell at each of the nine places round every cell."""
    rows, columns = grid
    planes = F.pad(as_planes(x, grid), (1, 1, 1, 1), mode="replicate")
    return [as_cells(planes[:, :, i : i + rows, j : j + columns]) for i in range(3) for j in range(3)]


class LocalCross(SplitAttention):
    """Attention whose queries, keys and values pass a depthwise 3x3 convolution."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, dropout=0.1)
        self.local = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in range(3))

    def common(self, x: Tensor, other: Tensor, grid: tuple[int, int]) -> Tensor:
        """What the other image has of x."""

        def convolved(number: int, cells: Tensor) -> Tensor:
            return as_cells(self.local[number](as_planes(cells, grid)))

        queries = self.query(convolved(0, x))
        return self.attend(queries, (self.key(convolved(1, other)), self.value(convolved(2, other))))


class ContrastDetector(DualMap):
    """Neighbourhoods, what each image does not share with the other, and the dual map on [cells; difference]."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int) -> None:
        super().__init__(2 * width)
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels + 2, width))
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.neighbours = Neighbours(width, width // 2)
        self.cross = LocalCross(width, heads)
        self.fuse = nn.Sequential(nn.Linear(2 * width, width), nn.Dropout(0.1), nn.ReLU())

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        cells = self.img(with_coordinates(torch.cat([before, after]), self.grid))
        cells = cells + grid_positions(self.w_embedding, self.h_embedding, self.grid)
        cells = self.neighbours(cells, self.grid)
        first, second = cells.chunk(2)
        apart = cells - self.cross.common(cells, torch.cat([second, first]), self.grid)
        difference = self.fuse(torch.cat(apart.chunk(2), dim=-1))
        map_first, map_second = self.maps_beside(difference, first, second)
        fused = under((map_first + map_second) / 2, difference)
        memory = torch.stack([under(map_first, first), under(map_second, second), fused], dim=1)
        return {"memory": memory, "map_before": map_first, "map_after": map_second}


class Nct(TuSystem):
    """NCT."""

    title = "after NCT"
    published = "NCT (2023)"
    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "relations": 0.01}
    relation_of: Tensor

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        word: int = 300,
        layers: int = 2,
        as_published: bool = False,
    ) -> None:
        super().__init__()
        self.change_detector = ContrastDetector(channels, grid, width=width, heads=heads)
        self.speaker = TuSpeaker(vocabulary, width=width, word=word, heads=heads, layers=layers)
        self.relation = nn.Linear(width, RELATIONS)
        self.register_buffer("relation_of", torch.zeros(vocabulary, vocabulary, dtype=torch.uint8))
        if as_published:
            self.swap = 0.0  # type: ignore[misc]

    def take_words(self, words: list[str]) -> None:
        kinds = [part_of_speech(word) for word in words]
        self.relation_of.copy_(torch.tensor([[relation(one, other) for other in kinds] for one in kinds]))

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        reading = super().read(seen, ids, mask)
        return reading | {"relations": self.relation(reading["states"])}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        # The state before a word predicts what that word is to the one after it.
        labels = self.relation_of[ids[:, 1:-1], ids[:, 2:]].long()
        losses = {"relations": label_loss(reading["relations"][:, :-2], labels, mask[:, 2:])}
        if changed:
            losses["map_sum"] = map_sum(seen["map_before"], seen["map_after"])
        return losses
