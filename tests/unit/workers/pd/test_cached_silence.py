"""Cross-attention's keys and values: cached silence is projected once, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from auricle.workers.pd.vllm.cached_silence import (
    Attended,
    ProjectionBeforeSilence,
    SilenceProjections,
)

pytestmark = pytest.mark.unit
LAYERS, WIDTH, CHUNK = 2, 8, 30


class Projection(nn.Module):
    """A projection as vLLM's linear layers return it, which counts the rows that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 2 * WIDTH)
        self.rows = 0

    def forward(self, embeddings: torch.Tensor) -> tuple[torch.Tensor, None]:
        self.rows += len(embeddings)
        return self.linear(embeddings), None


@pytest.fixture
def layers() -> list[Projection]:
    torch.manual_seed(1)
    return [Projection() for _ in range(LAYERS)]


def level(seed: int) -> torch.Tensor:
    return torch.randn(CHUNK, WIDTH, generator=torch.Generator().manual_seed(seed))


def passed(silence: SilenceProjections, layers: list[Projection], *requests: Attended) -> None:
    """Compare a pass over the requests with the projection of all their positions."""
    silence.start_pass(requests)
    own = torch.cat([request.own for request in requests])
    whole = torch.cat([
        torch.cat([r.own, r.silence.embeddings[len(r.own) :]]) if r.silence else r.own
        for r in requests
    ])  # fmt: skip
    for number, layer in enumerate(layers):
        found, bias = ProjectionBeforeSilence(layer, number, silence)(own)
        torch.testing.assert_close(found, layer.linear(whole))
        assert bias is None


@torch.inference_mode()
def test_all_positions_have_their_keys_and_values(layers: list[Projection]) -> None:
    silence = SilenceProjections(layers)
    short, long = torch.randn(3, WIDTH), torch.randn(20, WIDTH)
    complete = Attended(torch.randn(CHUNK, WIDTH), None)
    passed(silence, layers, silence.attended(short, level(1)))
    passed(
        silence,
        layers,
        silence.attended(long, level(2)),
        complete,
        silence.attended(short, level(1)),
    )


@torch.inference_mode()
def test_silence_is_projected_once_per_level(layers: list[Projection]) -> None:
    silence = SilenceProjections(layers)
    own = torch.randn(5, WIDTH)
    for seed in (1, 1, 2, 1, 2):
        passed(silence, layers, silence.attended(own, level(seed)))
    assert [layer.rows for layer in layers] == [2 * CHUNK + 5 * len(own)] * LAYERS


@torch.inference_mode()
def test_levels_beyond_the_bound_replace_the_oldest(
    layers: list[Projection], monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = SilenceProjections(layers)
    own = torch.randn(1, WIDTH)
    one = silence.attended(own, level(1)).silence
    assert one is not None
    monkeypatch.setattr("auricle.workers.pd.vllm.cached_silence._KEPT_BYTES", 2 * one.bytes)
    for seed in (2, 3, 2, 3):
        passed(silence, layers, silence.attended(own, level(seed)))
    projected = [layer.rows for layer in layers]
    passed(silence, layers, silence.attended(own, level(1)))
    assert [layer.rows for layer in layers] == [n + CHUNK + 1 for n in projected]
