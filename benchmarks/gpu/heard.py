"""What speakers have heard: when the text of each chunk came, and whether that is in time. No I/O.

A chunk is due when its last sample has been spoken. Its lag is the time from then to the first text
that covers it, so a chunk whose grid point load has skipped waits for the next one's text. The
last chunk of a segment has a final text instead, whose time counts apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_LAG_MS, MOST_FINAL_MS = 640.0, 500.0
# A driver that is later than this says nothing of the pools.
_LATE_SECONDS, _LATE_SHARE = 0.05, 0.01
_FEWEST_TEXTS_SHARE = 0.5
_ROUNDING = 16  # samples: texts say what they cover in whole milliseconds


@dataclass(frozen=True)
class Chunk:
    """Audio up to session sample `end`, due at that time; `last` of its segment."""

    end: int
    due: float
    last: bool


@dataclass
class Heard:
    """Figures of all chunks that were due from `begin` to `end` (monotonic seconds)."""

    begin: float
    end: float
    lags: list[float] = field(default_factory=list)  # seconds
    finals: list[float] = field(default_factory=list)
    chunks: int = 0
    late: int = 0  # chunks that the driver pushed late
    texts: int = 0
    failures: list[str] = field(default_factory=list)

    def counts(self, chunk: Chunk) -> bool:
        """Whether the chunk was due in that time."""
        return self.begin <= chunk.due < self.end


class Chunks:
    """The chunks of one session that have no text yet."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._waiting: deque[Chunk] = deque()

    def pushed(self, chunk: Chunk, now: float) -> None:
        """Note a chunk that is being pushed."""
        self._waiting.append(chunk)
        if self._heard.counts(chunk):
            self._heard.chunks += 1
            self._heard.late += now - chunk.due > _LATE_SECONDS

    def text(self, milliseconds: int, now: float) -> None:
        """Note a text that covers the session up to there."""
        covered, last = milliseconds * 16 + _ROUNDING, None
        while self._waiting and self._waiting[0].end <= covered:
            last = self._waiting.popleft()
            self._waited(last, now)
        if last is not None and self._heard.counts(last):
            self._heard.texts += 1

    def over(self, now: float) -> None:
        """Note that nobody waits any longer: what has no text by now is at least so late."""
        while self._waiting:
            self._waited(self._waiting.popleft(), now)

    def _waited(self, chunk: Chunk, now: float) -> None:
        if self._heard.counts(chunk):
            (self._heard.finals if chunk.last else self._heard.lags).append(now - chunk.due)


@dataclass(frozen=True)
class Trial:
    """So many streams at a time: what all drivers have heard together."""

    streams: int
    chunks: int
    late: int
    texts: int
    lags: tuple[float, ...]
    finals: tuple[float, ...]
    failures: tuple[str, ...]
    driver_cores: float

    @classmethod
    def of(cls, streams: int, told: Sequence[dict[str, Any]]) -> Trial:
        """Put together what drivers have told."""
        return cls(
            streams=streams,
            chunks=sum(one["chunks"] for one in told),
            late=sum(one["late"] for one in told),
            texts=sum(one["texts"] for one in told),
            lags=tuple(lag for one in told for lag in one["lags"]),
            finals=tuple(late for one in told for late in one["finals"]),
            failures=tuple(why for one in told for why in one["failures"]),
            driver_cores=sum(one["cores"] for one in told),
        )

    @property
    def lag_p95_ms(self) -> float | None:
        """The 95th percentile of chunks' lags."""
        return _p95_ms(self.lags)

    @property
    def final_p95_ms(self) -> float | None:
        """The 95th percentile from a segment's end to its final text."""
        return _p95_ms(self.finals)

    @property
    def decoded_share(self) -> float:
        """The share of chunks that a text of their own came for."""
        return self.texts / self.chunks if self.chunks else 0.0

    @property
    def beyond(self) -> str:
        """Return what bounds so many streams; empty if they are carried."""
        if self.failures:
            return f"{len(self.failures)} sessions failed, such as with: {self.failures[0]}"
        if self.chunks and self.late > _LATE_SHARE * self.chunks:
            share = self.late / self.chunks
            return f"the drivers, of whose chunks {share:.1%} were late: give them more cores"
        for name, value, most in (
            ("lag", self.lag_p95_ms, MOST_LAG_MS),
            ("final", self.final_p95_ms, MOST_FINAL_MS),
        ):
            if value is not None and value > most:
                return f"{name} p95 {value:.0f} ms, above {most:.0f} ms"
        if self.decoded_share < _FEWEST_TEXTS_SHARE:
            return f"only {self.decoded_share:.0%} of chunks were decoded"
        return ""

    def plain(self) -> dict[str, Any]:
        """Return the trial as JSON data."""
        return {
            "streams": self.streams,
            "carried": not self.beyond,
            "beyond": self.beyond,
            "lag_p95_ms": self.lag_p95_ms,
            "final_p95_ms": self.final_p95_ms,
            "decoded_share": self.decoded_share,
            "late_share": self.late / self.chunks if self.chunks else 0.0,
            "failed": len(self.failures),
            "driver_cores": self.driver_cores,
        }


def _p95_ms(seconds: Sequence[float]) -> float | None:
    return 1000 * float(np.percentile(seconds, 95)) if seconds else None
