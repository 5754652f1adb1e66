"""Keys and values of cached silence, which a decoder with cross-attention projects once per level.

Whisper's decoder attends to 30 s, most of them silence at one of few levels (see
`checkpoints.whole_chunks`). On a CPU their projection takes longer than all other work of a short
segment's decode. A position's keys and values depend on that position alone, so each level is
projected once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_KEPT_BYTES = 1 << 28  # of all levels; one is kept at any size


@dataclass(frozen=True)
class ProjectedSilence:
    """The embeddings of a level, (positions, width), and each layer's projection of them."""

    embeddings: torch.Tensor
    layers: tuple[torch.Tensor, ...]

    @property
    def bytes(self) -> int:
        return self.embeddings.nbytes + sum(layer.nbytes for layer in self.layers)


@dataclass(frozen=True)
class Attended:
    """The positions of one request: `own`, then `silence` from the position that follows."""

    own: torch.Tensor
    silence: ProjectedSilence | None


class SilenceProjections:
    """The layers' projections of the requests of a pass. Levels are recognised by their content."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        """`layers` project embeddings to keys and values side by side, as vLLM's linear layers."""
        self._layers = layers
        self._known: deque[ProjectedSilence] = deque()
        self._pass: Sequence[Attended] = ()

    def attended(self, own: torch.Tensor, silence: torch.Tensor) -> Attended:
        """Return the positions of a request: `own`, then the rest of a level of `silence`."""
        return Attended(own, self._projected(silence))

    def _projected(self, embeddings: torch.Tensor) -> ProjectedSilence:
        for known in self._known:
            if torch.equal(known.embeddings, embeddings):
                return known
        layers = tuple(layer(embeddings)[0] for layer in self._layers)
        new = ProjectedSilence(embeddings, layers)
        while self._known and (len(self._known) + 1) * new.bytes > _KEPT_BYTES:
            self._known.popleft()
        self._known.append(new)
        return new

    def start_pass(self, requests: Sequence[Attended]) -> None:
        """Set the requests whose embeddings the layers get next, one after the other."""
        self._pass = requests

    def complete(self, layer: int, projected: torch.Tensor) -> torch.Tensor:
        """Append the silence of each request to the projection of its own embeddings."""
        parts = torch.split(projected, [len(request.own) for request in self._pass])
        whole = []
        for request, own in zip(self._pass, parts, strict=True):
            whole.append(own)
            if request.silence is not None:
                whole.append(request.silence.layers[layer][len(own) :])
        return torch.cat(whole) if len(whole) > 1 else whole[0]


class ProjectionBeforeSilence(nn.Module):
    """Stands for a layer's projection: gets the requests' own embeddings, returns all positions."""

    def __init__(self, projection: nn.Module, layer: int, silence: SilenceProjections) -> None:
        super().__init__()
        self._projection = projection
        self._layer = layer
        self._silence = silence

    def forward(self, own: torch.Tensor) -> tuple[torch.Tensor, Any]:
        projected, bias = self._projection(own)
        return self._silence.complete(self._layer, projected), bias
