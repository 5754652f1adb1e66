"""Computes the figures that METRICS.md defines from records. No I/O."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import jiwer
import numpy as np
from whisper_normalizer.english import EnglishTextNormalizer

from benchmarks.load.record import Record, TextEvent
from benchmarks.statistics import percentile
from benchmarks.words import committed_at, matches

LATE_SECONDS = 0.05
_ROUNDING_SECONDS = 0.002  # protocols report whole milliseconds
NEVER = math.inf


@dataclass(frozen=True)
class Slo:
    """The service-level objective of a live session, in seconds.

    `lag_seconds` bounds the 95th percentile of its partial lag, `stop_seconds` the time
    from stop to final text.
    """

    chunk_seconds: float = 0.64
    stop_seconds: float = 0.5

    @property
    def lag_seconds(self) -> float:
        """The limit of lag: one chunk until the next decode, and 300 ms for all else."""
        return self.chunk_seconds + 0.3

    def kept(self, record: Record) -> bool:
        """Return whether the session was within the SLO."""
        if record.outcome != "done":
            return False
        lags = partial_lags(record)
        longer = (record.chunk_seconds or self.chunk_seconds) - self.chunk_seconds
        return stop_to_final(record) <= self.stop_seconds and (
            not lags or percentile(lags, 0.95) <= self.lag_seconds + max(0.0, longer)
        )

    def stretched(self, record: Record) -> bool:
        """Return whether the server gave the session a longer cadence than requested."""
        return record.chunk_seconds is not None and record.chunk_seconds > self.chunk_seconds


def late_share(records: Iterable[Record]) -> float:
    """Return the share of packets sent more than 50 ms late, which makes a load invalid."""
    late = total = 0
    for record in records:
        total += len(record.sent_at)
        late += sum(
            sent - due > LATE_SECONDS
            for due, sent in zip(record.due_at, record.sent_at, strict=True)
        )
    return late / total if total else 0.0


def partial_lags(record: Record) -> list[float]:
    """For each packet of speech: from when it was due to text that covers it.

    All packets count, not all decodes, so that the times of a server's decodes do not matter.

    If a protocol does not report how much audio its text covers, words are measured: from a
    word's last packet to the text that first shows it.
    """
    covering = [e for e in record.events if e.covered is not None]
    if not covering:
        return shown_lags(record)
    lags: list[float] = []
    for start, end in record.plan.speech:
        for point in np.arange(start + record.packet_seconds, end, record.packet_seconds):
            at = next((e.at for e in covering if _covers(e, float(point))), NEVER)
            lags.append(at - record.due(float(point)))
    return lags


def _covers(event: TextEvent, seconds: float) -> bool:
    return event.covered is not None and event.covered + _ROUNDING_SECONDS >= seconds


def partial_latencies(record: Record) -> list[float]:
    """For each partial: from the packet that completed its audio to its text."""
    return [
        event.at - record.due(event.covered)
        for event in record.events
        if event.covered is not None and not event.final
    ]


def first_partial(record: Record) -> float | None:
    """Return the time from the packet that made the first text possible to that text."""
    for event in record.events:
        if event.committed or event.partial:
            return None if event.covered is None else event.at - record.due(event.covered)
    return None


def stop_to_final(record: Record) -> float:
    """Return the time from the message that ends the session to its last final text.

    Other events of the session, such as its words' times, may arrive later.
    """
    if record.outcome != "done":
        return NEVER
    told = max((event.at for event in record.events if event.final), default=record.finished_at)
    return max(0.0, told - record.stopped_at)


def commit_lags(record: Record) -> list[float]:
    """For each word that was recognised: from its last packet to its commitment."""
    return _word_lags(record, [e.committed for e in record.events])


def shown_lags(record: Record) -> list[float]:
    """For each word that was recognised: from its last packet to when it was first shown."""
    return _word_lags(record, [e.committed + e.partial for e in record.events])


def _word_lags(record: Record, texts: Sequence[str]) -> list[float]:
    times: list[float] = []
    heard: list[str] = []
    for events in _segments(record, texts).values():
        at, final, _ = events[-1]
        if not final:
            continue
        text = events[-1][2]
        times += committed_at([(when, said) for when, _, said in events[:-1]], text, at)
        heard += text.split()
    said = [word.text for word in record.plan.words]
    return [times[j] - record.due(record.plan.words[i].end) for i, j in matches(said, heard)]


def _segments(record: Record, texts: Sequence[str]) -> dict[int, list[tuple[float, bool, str]]]:
    found: dict[int, list[tuple[float, bool, str]]] = defaultdict(list)
    for event, text in zip(record.events, texts, strict=True):
        found[event.segment].append((event.at, event.final, text))
    return found


@dataclass(frozen=True)
class Stability:
    """Counts of changed words: changes, changed places, and final words."""

    erased: int
    unstable: int
    words: int


def stability(record: Record) -> Stability:
    """See `normalised_erasure` and `unstable_word_ratio` in METRICS.md."""
    erased = unstable = words = 0
    shown = [e.committed + e.partial for e in record.events]
    for events in _segments(record, shown).values():
        rows = [text.split() for _, _, text in events]
        touched: set[int] = set()
        for before, after in pairwise(rows):
            same = next(
                (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
                min(len(before), len(after)),
            )
            erased += len(before) - same
            touched.update(range(same, len(before)))
        unstable += len([place for place in touched if place < len(rows[-1])])
        words += len(rows[-1])
    return Stability(erased, unstable, words)


@dataclass(frozen=True)
class WordErrors:
    """Error rates over all texts, after Whisper's English normalisation."""

    wer: float
    cer: float


def word_errors(records: Sequence[Record]) -> WordErrors:
    """Return the error rates of all finished sessions with speech."""
    plain = EnglishTextNormalizer()
    pairs = [(plain(r.plan.text), plain(r.text)) for r in records if r.outcome == "done"]
    pairs = [(said, heard) for said, heard in pairs if said]
    if not pairs:
        return WordErrors(math.nan, math.nan)
    said, heard = [a for a, _ in pairs], [b for _, b in pairs]
    return WordErrors(jiwer.wer(said, heard), jiwer.cer(said, heard))


def figures(records: Sequence[Record], slo: Slo) -> dict[str, float]:
    """Return all figures of METRICS.md for a set of sessions."""
    done = [r for r in records if r.outcome == "done"]
    tried = [r for r in records if r.outcome != "refused"]
    lags = [lag for r in done for lag in partial_lags(r)]
    stops = [stop_to_final(r) for r in done]
    commits = [lag for r in done for lag in commit_lags(r)]
    firsts = [f for r in done if (f := first_partial(r)) is not None]
    moved = [stability(r) for r in done]
    words = max(sum(m.words for m in moved), 1)
    errors = word_errors(records)
    kept = sum(slo.kept(r) for r in tried)
    return {
        "sessions": len(tried),
        "sessions_refused": len(records) - len(tried),
        "sessions_stretched": sum(slo.stretched(r) for r in tried),
        "sessions_failed": sum(r.outcome != "done" for r in tried),
        "slo_share": kept / len(tried) if tried else math.nan,
        "late_packet_share": late_share(records),
        "audio_seconds": sum(r.plan.seconds for r in done),
        "first_partial_p50_ms": 1000 * percentile(firsts, 0.5),
        "first_partial_p95_ms": 1000 * percentile(firsts, 0.95),
        "partial_lag_p50_ms": 1000 * percentile(lags, 0.5),
        "partial_lag_p95_ms": 1000 * percentile(lags, 0.95),
        "stop_to_final_p50_ms": 1000 * percentile(stops, 0.5),
        "stop_to_final_p95_ms": 1000 * percentile(stops, 0.95),
        "stop_to_final_p99_ms": 1000 * percentile(stops, 0.99),
        "commit_lag_p50_ms": 1000 * percentile(commits, 0.5),
        "commit_lag_p95_ms": 1000 * percentile(commits, 0.95),
        "normalised_erasure": sum(m.erased for m in moved) / words,
        "unstable_word_ratio": sum(m.unstable for m in moved) / words,
        "wer": errors.wer,
        "cer": errors.cer,
    }
