"""A session's logic over pools that answer from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import (
    AuricleError,
    DeadlineExceeded,
    Overloaded,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.messages import (
    DecodeReply,
    DecodeRequest,
    Done,
    EncodeReply,
    EncodeRequest,
    Failed,
    Final,
    OpenSession,
    Partial,
    ResumePoint,
    SessionReady,
    WindowRef,
)
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.session import CheckpointView, Session
from auricle.settings import ProcessorSettings
from tests.server import ROOT

pytestmark = pytest.mark.unit
GRID = 10_240
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
PROMPT = PromptFormat(CHECKPOINT)
VIEW = CheckpointView(CHECKPOINT.geometry, PROMPT, CHECKPOINT.fingerprint)


def ids(text: str) -> tuple[int, ...]:
    return tuple(PROMPT._tokenizer(text).input_ids)


class ScriptedWorkers:
    """Stands for both pools' endpoints: encodes anything, decodes what `says` returns."""

    def __init__(self, says: Callable[[DecodeRequest], str]) -> None:
        self.says = says
        self.encodes: list[EncodeRequest] = []
        self.decodes: list[DecodeRequest] = []
        self.faults: list[AuricleError] = []
        self.used: list[int] = []

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        return [i for i in (1, 2) if i not in avoid] or [1, 2]

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        await asyncio.sleep(0)
        if isinstance(message, EncodeRequest):
            self.encodes.append(message)
            refs = tuple(
                WindowRef(w.key, "f", "float32", 1, "a", b"", 0, 1, 0, "DRAM", 0, 1, 1)
                for w in message.windows
            )
            return EncodeReply(refs, len(refs))
        assert isinstance(message, DecodeRequest)
        self.decodes.append(message)
        self.used.append(instance)
        if self.faults:
            raise self.faults.pop(0)
        answer = ids(self.says(message))
        forced = len(message.tail) - len(PROMPT.tail(None))
        return DecodeReply(answer[forced:], "stop", 100, 50, 10)


def session(
    workers: ScriptedWorkers, resume: ResumePoint | None = None, **settings: object
) -> Session:
    values = {"pause_after_seconds": 100, "max_segment_seconds": 120, **settings}
    configured = ProcessorSettings(**values)  # type: ignore[arg-type]
    recognizer = Recognizer(
        "s",
        "t",
        EncodePool(workers, 1.0, 3),  # type: ignore[arg-type]
        PdPool(workers, 1.0, 3),  # type: ignore[arg-type]
    )
    opened = OpenSession("s", "t", None, "", 640, resume=resume or ResumePoint())
    return Session(opened, configured, VIEW, recognizer)


def noise(samples: int, seed: int = 0) -> bytes:
    values = np.random.default_rng(seed).integers(-3_000, 3_000, samples)
    return values.astype("<i2").tobytes()


def counting(request: DecodeRequest) -> str:
    """One more word per second of audio."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    count = sum(w.length for w in request.windows) // 8
    return "language English<asr_text>" + " ".join(words[:count])


async def feed(subject: Session, total: int, piece: int = GRID) -> list[object]:
    """Push `total` samples piece by piece, then the end; all events."""
    events = subject.events()
    got: list[object] = [await anext(events)]
    data = noise(total)
    for start in range(0, total, piece):
        end = min(start + piece, total)
        await subject.inbox.push(start, data[2 * start : 2 * end], 1.0)
        if end // GRID > start // GRID:
            got.append(await anext(events))
    subject.inbox.end(total)
    got += [event async for event in events]
    return got


async def test_ready_then_partials_then_final_then_done() -> None:
    events = await feed(session(ScriptedWorkers(counting)), 6 * GRID + 5_000)
    kinds = [type(e) for e in events]
    assert kinds == [SessionReady, *[Partial] * 6, Final, Done]


async def test_committed_grows_and_is_the_prefix_of_the_next_decode() -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers), 9 * GRID)
    committed = ""
    for event in events:
        if isinstance(event, Partial):
            assert event.committed.startswith(committed)
            committed = event.committed
        elif isinstance(event, Final):
            assert event.text.startswith(committed)
    assert committed
    forced = [len(d.tail) for d in workers.decodes]
    assert forced == sorted(forced)
    assert forced[0] == forced[1] == len(PROMPT.tail(None))


async def test_only_the_growing_window_is_encoded_again() -> None:
    workers = ScriptedWorkers(counting)
    await feed(session(workers), 30 * GRID)
    sent = [len(r.windows) for r in workers.encodes]
    assert set(sent) == {1, 2}
    assert sent.count(2) == 2  # 19.2 s: two windows were finished
    assert all(r.windows[0].supersedes for r in workers.encodes[1:] if len(r.windows) == 1)


async def test_the_end_of_a_segment_carries_its_text_over_as_context() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers, pause_after_seconds=4, max_segment_seconds=4)
    events = subject.events()
    await anext(events)
    await subject.inbox.push(0, noise(8 * 16_000), 1.0)
    subject.inbox.end(8 * 16_000)
    finals = [e async for e in events if isinstance(e, Final)]
    assert [f.segment for f in finals] == list(range(len(finals)))
    assert finals[0].end_ms == finals[1].start_ms
    assert finals[-1].end_ms == 8_000
    head = PROMPT._tokenizer.decode(workers.decodes[-1].head)
    assert finals[-2].text in head


async def test_a_grid_point_passed_during_a_decode_is_skipped() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.inbox.push(0, noise(GRID), 1.0)
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await subject.inbox.push(GRID, noise(4 * GRID), 1.0)
    await first
    second = await anext(events)
    assert isinstance(second, Partial)
    assert second.audio_ms == 5 * 640
    await events.aclose()


async def test_a_dead_pd_worker_is_left_for_another() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [WorkerUnavailable("Unavailable: gone")]
    events = await feed(session(workers), 2 * GRID)
    assert isinstance(events[-1], Done)
    assert workers.used[0] != workers.used[1]


async def test_a_silent_pd_worker_is_left_for_another() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [DeadlineExceeded("DecodeRequest took longer than 60 s")]
    events = await feed(session(workers), 2 * GRID)
    assert isinstance(events[-1], Done)
    assert workers.used[0] != workers.used[1]


async def test_lost_windows_are_encoded_again() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = await feed(subject, 20 * GRID)
    assert isinstance(events[-1], Done)
    encodes = len(workers.encodes)
    again = session(workers)
    stream = again.events()
    await anext(stream)
    await again.inbox.push(0, noise(14 * GRID), 1.0)
    await anext(stream)
    first = workers.decodes[-1].windows[0].key
    workers.faults = [WindowsMissing((first,), "evicted")]
    await again.inbox.push(14 * GRID, noise(GRID, seed=1), 1.0)
    await anext(stream)
    assert first in [w.key for w in workers.encodes[-1].windows]
    assert len(workers.encodes) > encodes
    await stream.aclose()


async def test_when_every_try_fails_the_session_says_why() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [Overloaded("all slots are in use")] * 3
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.inbox.push(0, noise(GRID), 1.0)
    failed = await anext(events)
    assert failed == Failed("overloaded", "all slots are in use")
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_session_goes_on_elsewhere_from_its_resume_point() -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers), 9 * GRID)
    last = [e for e in events if isinstance(e, Partial)][-1]
    resumed = session(workers, resume=last.resume)
    stream = resumed.events()
    await anext(stream)
    await resumed.inbox.push(0, noise(10 * GRID), 1.0)
    event = await anext(stream)
    assert isinstance(event, Partial)
    assert event.committed.startswith(last.committed)
    await stream.aclose()


async def test_without_partials_a_segment_is_decoded_once() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    subject._opened = OpenSession("s", "t", None, "", 640, partials=False)
    events = subject.events()
    await anext(events)
    await subject.inbox.push(0, noise(9 * GRID), 1.0)
    subject.inbox.end(9 * GRID)
    kinds = [type(e) async for e in events]
    assert kinds == [Final, Done]
    assert len(workers.decodes) == 1
