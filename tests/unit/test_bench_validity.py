"""A benchmark that cannot measure says so: it neither hangs nor publishes figures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import websockets

from benchmarks.frontdoor.probes import live_lag
from benchmarks.load.groups import Suite
from benchmarks.load.scale import QUICK
from benchmarks.load.trial import Load, Trial
from benchmarks.streaming.feed import CHUNK, feed
from tests.unit.test_load_metrics import served

pytestmark = pytest.mark.unit
Answers = Callable[[int], list[dict[str, object]]]
CHUNKS = 60
SPEECH = np.zeros(CHUNKS * CHUNK, np.float32)


@asynccontextmanager
async def server(answers: Answers, chunk_ms: int = 640) -> AsyncIterator[str]:
    """Takes sessions; after every message it says what `answers` returns for the samples so far."""

    async def session(socket: websockets.ServerConnection) -> None:
        heard = 0
        await socket.recv()
        await socket.send(json.dumps({"type": "ready", "chunk_ms": chunk_ms}))
        async for message in socket:
            if isinstance(message, str):
                events: list[dict[str, object]] = [
                    {"type": "final", "end_ms": heard // 16},
                    {"type": "done", "text": "", "usage": {}},
                ]
            else:
                heard += len(message) // 2
                events = answers(heard)
            for event in events:
                await socket.send(json.dumps(event))

    async with websockets.serve(session, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"


def partial(samples: int) -> list[dict[str, object]]:
    return [{"type": "partial", "audio_ms": samples // 16}]


async def test_a_skipped_grid_point_is_named_instead_of_waited_for() -> None:
    def every_second(samples: int) -> list[dict[str, object]]:
        return partial(samples) if samples // CHUNK % 2 else []

    async with server(every_second) as url:
        with pytest.raises(RuntimeError, match=r"the answer to the chunk that ends at 1\.28 s"):
            await feed(url, SPEECH, 300.0, answer_seconds=3.0)


async def test_another_cadence_than_asked_for_is_refused() -> None:
    async with server(partial, chunk_ms=1280) as url:
        with pytest.raises(RuntimeError, match="asked for 640 ms chunks, promised 1280 ms"):
            await feed(url, SPEECH, 300.0)


async def test_chunks_in_a_hurry_go_together_are_not_timed_and_those_skipped_are_counted() -> None:
    packets: list[int] = []

    def answered(samples: int) -> list[dict[str, object]]:
        packets.append(samples)
        return partial(samples)

    async with server(answered) as url:
        fed = await feed(url, SPEECH, 300.0, in_a_hurry=(6.0, 36.0))
    timed = [round(chunk.offset / 0.64) for chunk in fed.chunks]
    assert timed == [*range(1, 10), *range(57, CHUNKS + 1)]
    hurried = [at // CHUNK for at in packets if at // CHUNK not in timed]
    assert hurried == [33, 56]  # 24 and 23 chunks at a time, each time one answer
    assert fed.unanswered == 47 - 2


def test_a_load_of_which_no_session_ended_or_that_left_late_is_invalid_and_says_why() -> None:
    assert Trial(Load(4, 10.0)).invalid == "no session ended within 10 s"
    late = served()
    late.sent_at = [at + 0.06 for at in late.sent_at]
    assert Trial(Load(1, 1.0), [served()], [served(), late]).invalid == "50.0% of packets left late"
    good = Trial(Load(1, 1.0), [served()], [served()])
    assert (good.invalid, good.figures()["valid"]) == ("", 1.0)


def test_figures_of_an_invalid_load_are_replaced_by_the_reason(tmp_path: Path) -> None:
    told: list[str] = []
    suite = Suite(QUICK, tmp_path, told.append, lambda: None)
    suite.publish("", {"soak_lag_growth": 1.05})
    assert (suite.figures, suite.invalid) == ({"soak_lag_growth": 1.05}, {})
    suite.publish("2.0% of packets left late", {"soak_lag_growth": 0.5})
    assert (suite.figures, suite.invalid) == ({}, {"soak_lag_growth": "2.0% of packets left late"})
    assert told == ["soak_lag_growth is invalid: 2.0% of packets left late"]
    suite.publish("", {"soak_lag_growth": 1.02})
    assert (suite.figures, suite.invalid) == ({"soak_lag_growth": 1.02}, {})


async def test_lags_of_a_live_session_that_failed_are_no_figure() -> None:
    def failing(samples: int) -> list[dict[str, object]]:
        return [*partial(samples), {"type": "error", "code": "overloaded", "message": "full"}]

    async with server(failing) as url:
        with pytest.raises(RuntimeError, match="a live session failed: overloaded: full"):
            await live_lag(url, np.zeros(1_600, np.int16), 0.1)
