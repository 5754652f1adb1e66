"""The load generator's protocols against the real server: its records must be right."""

from __future__ import annotations

import time

import jiwer
import pytest

from auricle.audio.pcm import to_int16
from auricle_testing import recordings
from auricle_testing.server import Server
from benchmarks.load.metrics import partial_lags
from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.record import Failed, Record

pytestmark = pytest.mark.end_to_end
WORD_ERRORS = 0.25
MODEL = "demo"


def recorded() -> Record:
    name = "kitchen"
    pcm = to_int16(recordings.samples(name))
    plan = SessionPlan(name, pcm, (), ((0.5, 1.5),))
    return Record(plan, 0.1, time.monotonic())


async def heard(server: Server, name: str) -> Record:
    """Run a session, and check that its record is complete."""
    record = recorded()
    await protocol(name)(Target(server.url, MODEL), record)
    record.outcome = "done"
    assert jiwer.wer(recordings.words(record.plan.name), record.text) < WORD_ERRORS
    assert record.finished_at > record.stopped_at
    assert record.events[-1].final
    return record


@pytest.mark.parametrize("name", ["realtime", "transcriptions"])
async def test_a_session_is_heard_to_its_end(server: Server, name: str) -> None:
    await heard(server, name)


async def test_a_live_session_follows_the_clock_and_its_text_says_what_it_covers(
    server: Server,
) -> None:
    record = await heard(server, "stream")
    assert record.due_at[-1] - record.due_at[0] == pytest.approx(record.plan.seconds - 0.1, abs=0.1)
    assert all(s >= d - 0.002 for s, d in zip(record.sent_at, record.due_at, strict=True))
    assert record.chunk_seconds == 0.64
    assert all(lag > 0 for lag in partial_lags(record))


async def test_a_server_that_is_not_there_is_a_failure_not_a_result(server: Server) -> None:
    nobody = Target("http://127.0.0.1:9", MODEL)
    for name in ("stream", "realtime", "transcriptions"):
        with pytest.raises(Failed):
            await protocol(name)(nobody, recorded())
