"""What a translation costs the rest: live sessions a machine carries, and when text comes."""

from __future__ import annotations

from benchmarks.annotations.capacity import with_and_without
from benchmarks.annotations.delays import final_delays, in_turns, last_final
from benchmarks.translation.graph import ASKED, TARGET, Asked


def capacity(asked: Asked) -> dict[str, float]:
    """Search both on one graph, whose translate pool is idle in one of them."""
    with asked.serving("--Processor.admission=fixed") as server:
        return with_and_without(asked, server, "translation", translate=(TARGET,))


def delays(asked: Asked) -> dict[str, float]:
    """Speak in real time with and without a target language, in turns on one graph."""
    stops: dict[bool, list[float]] = {True: [], False: []}
    with asked.serving() as server:
        for wanted, events, stopped in in_turns(asked, server.url, ASKED):
            stops[wanted].append(last_final(events) - stopped)
    return final_delays(stops, "translation")
