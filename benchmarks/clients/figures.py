"""Each way in relative to our own protocol, from rounds in which all were measured. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.before.pairs import ratio
from benchmarks.clients.speaking import Heard

# What each way is compared with: the form of our own protocol that does the same.
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
# Their protocols have no text that may still change.
NEVER_TAKEN_BACK = ("openai_realtime", "openai_realtime_sooner", "wyoming")


@dataclass(frozen=True)
class Row:
    """One way in one round: its sessions, and the CPU of frontend and processor for each."""

    heard: tuple[Heard, ...]
    cpu_seconds: float


def figures(rounds: Sequence[Mapping[str, Row]]) -> dict[str, float]:
    """Return the figures of METRICS.md, "Clients"; a latency that a way does not tell has none."""
    found = {"clients_sessions": float(sum(len(r.heard) for one in rounds for r in one.values()))}
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
                found |= _named(f"clients_{name}_text_ratio_{way}", before, now)
        found |= _named(
            f"clients_cpu_ratio_{way}",
            [own.cpu_seconds for own, _ in pairs],
            [its.cpu_seconds for _, its in pairs],
        )
    return found


def _both(own: Row, its: Row) -> Sequence[tuple[Heard, Heard]]:
    return list(zip(own.heard, its.heard, strict=True))


def _median(row: Row, name: str) -> float | None:
    values = [value for one in row.heard if (value := getattr(one, name)) is not None]
    return statistics.median(values) if values else None


def _named(name: str, before: Sequence[float], now: Sequence[float]) -> dict[str, float]:
    found = ratio(before, now)
    return {name: found.ratio, f"{name}_low": found.low, f"{name}_high": found.high}
