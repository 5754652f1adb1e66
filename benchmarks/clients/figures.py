"""Each protocol relative to our own, from rounds in which all were measured. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.clients.speaking import Outcome
from benchmarks.statistics import ratio

# The form of our own protocol that each one is compared with.
REFERENCES: dict[str, str] = {
    "openai_realtime": "stream",
    "openai_realtime_sooner": "stream",
    "deepgram_live": "stream",
    "deepgram_turns": "stream",
    "assemblyai_turns": "stream",
    "riva_live": "stream",
    "triton_live": "stream",
    "wyoming": "stream",
    "vapi": "stream_then_silence",
    "twilio": "stream_mu_law",
    "audiosocket": "stream_8k",
    "openai_transcriptions": "file",
    "deepgram_recording": "file",
    "riva_recording": "file",
    "triton_recording": "file",
}
# Protocols without text that may still change.
NEVER_TAKEN_BACK = ("openai_realtime", "openai_realtime_sooner", "wyoming")


@dataclass(frozen=True)
class Row:
    """One protocol in one round: its sessions, and their CPU of frontend and processor, each."""

    outcomes: tuple[Outcome, ...]
    cpu_seconds: float


def figures(rounds: Sequence[Mapping[str, Row]]) -> dict[str, float]:
    """Return the figures of METRICS.md, "Clients"; not every protocol has every latency."""
    found = {
        "clients_sessions": float(sum(len(r.outcomes) for one in rounds for r in one.values()))
    }
    for way, reference in REFERENCES.items():
        pairs = [(one[reference], one[way]) for one in rounds]
        same = [a.text == b.text for own, its in pairs for a, b in _both(own, its)]
        found[f"clients_same_text_{way}"] = sum(same) / len(same)
        for name in ("first", "kept", "last"):
            if name == "kept" and way not in NEVER_TAKEN_BACK:
                continue
            before, now = [], []
            for own, its in pairs:
                a, b = _median(own, name), _median(its, name)
                if a is not None and b is not None:
                    before.append(a)
                    now.append(b)
            if before:
                found |= ratio(before, now).named(f"clients_{name}_text_ratio_{way}")
        own_cpu, its_cpu = zip(*((a.cpu_seconds, b.cpu_seconds) for a, b in pairs), strict=True)
        found |= ratio(own_cpu, its_cpu).named(f"clients_cpu_ratio_{way}")
    return found


def _both(own: Row, its: Row) -> Sequence[tuple[Outcome, Outcome]]:
    return list(zip(own.outcomes, its.outcomes, strict=True))


def _median(row: Row, name: str) -> float | None:
    values = [value for one in row.outcomes if (value := getattr(one, name)) is not None]
    return statistics.median(values) if values else None
