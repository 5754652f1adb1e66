"""Whether the text of chunks arrives in time. No I/O.

A chunk is due when its last sample has been spoken. Its lag is the time from then to the first text
that covers it, so a chunk whose grid point was skipped waits for the text of the next one. The last
chunk of a segment has a final text instead, whose time counts separately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auricle.tools.load_generation.speakers import Chunk

MOST_LAG_MS, MOST_FINAL_MS = 640.0, 500.0
# If the drivers push a larger share of chunks later than this, the figures are not valid for the
# pools.
_LATE_SECONDS, _LATE_SHARE = 0.05, 0.01
_FEWEST_TEXTS_SHARE = 0.5
_ROUNDING = 16  # samples: texts cover whole milliseconds


@dataclass
class Measurements:
    """The chunks that were due from `begin` to `end` (monotonic seconds), and their texts."""

    begin: float
    end: float
    lags: list[float] = field(default_factory=list)  # seconds
    finals: list[float] = field(default_factory=list)
    chunks: int = 0
    late: int = 0  # chunks that the driver pushed late
    texts: int = 0
    failures: list[str] = field(default_factory=list)

    def counts(self, chunk: Chunk) -> bool:
        """Whether the chunk was due in this interval."""
        return self.begin <= chunk.due < self.end


class Chunks:
    """The chunks of one session that have no text yet; observes a speaker."""

    def __init__(self, measured: Measurements) -> None:
        self._measured = measured
        self._waiting: deque[Chunk] = deque()

    def pushed(self, chunk: Chunk, now: float) -> None:
        """Note a chunk that is being pushed."""
        self._waiting.append(chunk)
        if self._measured.counts(chunk):
            self._measured.chunks += 1
            self._measured.late += now - chunk.due > _LATE_SECONDS

    def text(self, milliseconds: int, now: float) -> None:
        """Note a text that covers the session up to `milliseconds`."""
        covered, last = milliseconds * 16 + _ROUNDING, None
        while self._waiting and self._waiting[0].end <= covered:
            last = self._waiting.popleft()
            self._waited(last, now)
        if last is not None and self._measured.counts(last):
            self._measured.texts += 1

    def over(self, now: float) -> None:
        """Count chunks without text as texts that arrive now."""
        while self._waiting:
            self._waited(self._waiting.popleft(), now)

    def _waited(self, chunk: Chunk, now: float) -> None:
        if self._measured.counts(chunk):
            (self._measured.finals if chunk.last else self._measured.lags).append(now - chunk.due)


@dataclass(frozen=True)
class Trial:
    """The measurements of all drivers with `streams` streams at a time."""

    streams: int
    chunks: int
    late: int
    texts: int
    lags: tuple[float, ...]
    finals: tuple[float, ...]
    failures: tuple[str, ...]
    driver_cores: float

    @classmethod
    def of(cls, streams: int, answers: Sequence[dict[str, Any]]) -> Trial:
        """Combine the answers of drivers."""
        return cls(
            streams=streams,
            chunks=sum(one["chunks"] for one in answers),
            late=sum(one["late"] for one in answers),
            texts=sum(one["texts"] for one in answers),
            lags=tuple(lag for one in answers for lag in one["lags"]),
            finals=tuple(late for one in answers for late in one["finals"]),
            failures=tuple(why for one in answers for why in one["failures"]),
            driver_cores=sum(one["cores"] for one in answers),
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
        """The share of chunks with a text of their own."""
        return self.texts / self.chunks if self.chunks else 0.0

    @property
    def beyond(self) -> str:
        """Return why the streams are not carried; empty if they are."""
        if self.failures:
            return f"{len(self.failures)} sessions failed, such as with: {self.failures[0]}"
        if self.chunks and self.late > _LATE_SHARE * self.chunks:
            share = self.late / self.chunks
            return f"{share:.1%} of the drivers' chunks were late: give the drivers more cores"
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
