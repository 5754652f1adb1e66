"""A benchmark that cannot measure reports that: it neither hangs nor publishes figures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
import websockets

from auricle_testing.feed import CHUNK, feed
from benchmarks.load.trial import Load, Trial
from benchmarks.tests.records import served

pytestmark = pytest.mark.unit
Answers = Callable[[int], list[dict[str, object]]]
CHUNKS = 60
SPEECH = np.zeros(CHUNKS * CHUNK, np.float32)


@asynccontextmanager
async def server(answers: Answers, chunk_ms: int = 640) -> AsyncIterator[str]:
    """Serve sessions; answer every message with the result of `answers` for the samples so far."""

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


def test_a_load_of_which_no_session_ended_or_that_left_late_is_invalid_and_says_why() -> None:
    assert Trial(Load(4, 10.0)).invalid == "no session ended within 10 s"
    late = served()
    late.sent_at = [at + 0.06 for at in late.sent_at]
    assert Trial(Load(1, 1.0), [served()], [served(), late]).invalid == "50.0% of packets left late"
    good = Trial(Load(1, 1.0), [served()], [served()])
    assert (good.invalid, good.figures()["valid"]) == ("", 1.0)
