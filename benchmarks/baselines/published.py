"""The published streaming loop as decode jobs. No I/O.

`streaming_transcribe` of Qwen3-ASR decodes all audio so far again at every chunk, after a forced
prefix: the last hypothesis without its last 5 tokens. The first 2 chunks have no prefix.
"Segmented" restarts the same loop at given points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNFIXED_CHUNKS = 2
ROLLBACK_TOKENS = 5
SAMPLE_RATE = 16_000


@dataclass(frozen=True)
class Position:
    """Decode number `index` of the session: samples [start, end) with a forced prefix."""

    index: int
    start: int
    end: int
    prefix_tokens: int
    new_tokens: int


def positions(
    segments: Sequence[tuple[int, int]], chunk: int, tokens_per_second: float
) -> list[Position]:
    """Return every decode of a session whose text has `tokens_per_second` of audio.

    `segments` are [start, end) in samples; a whole recording is one segment. A decode
    lies at every `chunk` samples of a segment and at its end.
    """
    found: list[Position] = []
    for start, end in segments:
        ends = [*range(start + chunk, end, chunk), end]
        for number, at in enumerate(ends):
            said = _tokens(ends[number - 1] - start, tokens_per_second) if number else 0
            prefix = max(0, said - ROLLBACK_TOKENS) if number >= UNFIXED_CHUNKS else 0
            new = max(1, _tokens(at - start, tokens_per_second) - prefix)
            found.append(Position(len(found), start, at, prefix, new))
    return found


def sampled(all_positions: Sequence[Position], count: int) -> list[Position]:
    """Return about `count` evenly spaced positions, including the first and the last."""
    chosen = np.linspace(0, len(all_positions) - 1, min(count, len(all_positions)))
    return [all_positions[int(i)] for i in np.unique(chosen.round())]


def integrated(
    chosen: Sequence[Position], costs: Sequence[float], all_positions: Sequence[Position]
) -> float:
    """Estimate the cost of all positions from measurements of some.

    The cost depends on how much audio is decoded: between sampled lengths it is
    interpolated linearly.
    """
    lengths = np.array([p.end - p.start for p in chosen])
    order = np.argsort(lengths, kind="stable")
    wanted = [p.end - p.start for p in all_positions]
    return float(np.interp(wanted, lengths[order], np.asarray(costs)[order]).sum())


def _tokens(samples: int, tokens_per_second: float) -> int:
    return int(samples * tokens_per_second / SAMPLE_RATE)
