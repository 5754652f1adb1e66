"""Each annotation worker killed during a session: text stays, annotations are late or missing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping

from auricle.audio.pcm import Int16
from auricle.client import Final, Speakers, StreamEvent, Words
from auricle_testing.server import Server, eventually
from benchmarks.annotations.graph import BOTH_POOLS, annotating, speech, with_words
from benchmarks.harness import Run
from benchmarks.sessions import Session

# Of each worker: its component, and the name and the events of the annotation it computes.
_KILLED: Mapping[str, tuple[str, str, type[Words] | type[Speakers]]] = {
    "align_worker": ("AlignWorker", "words", Words),
    "align_encode_worker": ("AlignEncodeWorker", "words", Words),
    "diarize_worker": ("DiarizeWorker", "speakers", Speakers),
}
_SECONDS, _BACK_SECONDS = 40.0, 120.0


def faults(run: Run) -> dict[str, float]:
    """Kill each in turn after the first final of a session; every other session is undisturbed."""
    found: dict[str, float] = {}
    sessions = run.of(6, 2)
    with annotating(run, "--Common.pause_after_seconds=4", graph=BOTH_POOLS) as server:
        for name, (component, what, kind) in _KILLED.items():
            same = 0
            totals = [0, 0, 0]
            for number in range(sessions):
                (pcm,) = speech(1, _SECONDS, seed=number)
                usual, hurt = asyncio.run(_both(server, component, pcm))
                same += list(usual.finals().values()) == list(hurt.finals().values())
                counts = compared(usual.of(kind), hurt.of(kind))
                totals = [a + b for a, b in zip(totals, counts, strict=True)]
            _, wrong, missing = totals
            found |= {
                f"text_identical_{name}": same / sessions,
                f"{what}_wrong_{name}": float(wrong),
                f"{what}_missing_share_{name}": missing / max(1, sum(totals)),
            }
    return found


async def _both(server: Server, component: str, pcm: Int16) -> tuple[Session, Session]:
    wanted = {"words": True, "diarize": True, "partials": False}
    usual = await with_words(server.url, pcm, **wanted)
    killed: list[bool] = []

    def kill_once(event: StreamEvent) -> None:
        if isinstance(event, Final) and not killed:
            server.component(component).send_signal(signal.SIGKILL)
            killed.append(True)

    hurt = await with_words(server.url, pcm, on_event=kill_once, **wanted)
    await eventually(lambda: _is_back(server, component), _BACK_SECONDS)
    return usual, hurt


def _is_back(server: Server, component: str) -> bool:
    try:
        return server.component(component).is_running()
    except LookupError:
        return False


def compared(
    usual: Mapping[int, Words | Speakers], hurt: Mapping[int, Words | Speakers]
) -> tuple[int, int, int]:
    """Count segments whose annotation is as usual, wrong, and reported as missing."""
    right = wrong = missing = 0
    for segment, before in usual.items():
        now = hurt.get(segment)
        if now == before:
            right += 1
        elif now is not None and now.missing and now.source is None:
            missing += 1
        else:  # a different one, or no event
            wrong += 1
    return right, wrong, missing
