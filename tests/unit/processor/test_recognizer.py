"""Recovery of windows that a PD worker could not read."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from auricle.core.errors import AuricleError, WindowsMissing, WindowsSpoiled
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.session.actions import DecodeTask
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeRequest, EncodeRequest, SpoiledSlot
from auricle.protocol.sessions import Failed, SessionDone
from tests.fakes.workers import GRID, PROMPT, VIEW, ScriptedWorkers, counting, feed, session

pytestmark = pytest.mark.unit
REPORTED = SpoiledSlot("a", 0, 1)


class Readers(ScriptedWorkers):
    """PD workers that fail their first reads in the ways of `failures`."""

    def __init__(self, *failures: type[WindowsMissing]) -> None:
        super().__init__(counting)
        self.failures = list(failures)
        self.encoders: list[int] = []

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        if isinstance(message, EncodeRequest):
            self.encoders.append(instance)
        if isinstance(message, DecodeRequest) and self.failures:
            keys = tuple(window.key for window in message.windows)
            raise self.failures.pop(0)(keys, "slot header has magic 00000000")
        return await super().call(message, reply, instance, seconds)


async def test_a_window_that_a_segment_has_twice_is_sent_once() -> None:
    """Keys carry no position: two windows of digital silence have one key."""
    workers = Readers()
    audio = SegmentAudio(VIEW.geometry, KeyScheme(VIEW.fingerprint, "float32", "t"))
    audio.push(np.zeros(25 * 16_000, np.int16))
    recognizer = Recognizer("s", "t", EncodePool(workers, 60.0, 3), PdPool(workers, 60.0, 3))  # type: ignore[arg-type]
    task = DecodeTask(PROMPT.head(""), PROMPT.tail(None), 20, final=True)
    await recognizer.decode(audio, audio.samples, task, UsageMeter())
    recognizer.close()
    sent = [window.key for window in workers.encodes[0].windows]
    decoded = [window.key for window in workers.decodes[0].windows]
    assert len(decoded) == 4
    assert sorted(sent) == sorted(set(decoded)) != sorted(decoded)


async def test_a_spoiled_slot_is_reported_to_the_encode_worker_that_has_it() -> None:
    workers = Readers(WindowsSpoiled)
    events = await feed(session(workers), 2 * GRID)
    assert isinstance(events[-1], SessionDone)
    first, second, *later = workers.encodes
    assert (first.spoiled, second.spoiled) == ((), (REPORTED,))
    assert workers.encoders[0] == workers.encoders[1]
    assert not any(request.spoiled for request in later)


async def test_a_window_that_stays_spoiled_is_encoded_elsewhere() -> None:
    workers = Readers(WindowsSpoiled, WindowsSpoiled)
    events = await feed(session(workers), GRID)
    assert isinstance(events[-1], SessionDone)
    first, second, third = workers.encoders[:3]
    assert first == second != third


async def test_windows_that_cannot_be_read_at_all_are_encoded_elsewhere() -> None:
    """Their encode worker has probably died."""
    workers = Readers(WindowsMissing)
    await feed(session(workers), GRID)
    assert workers.encoders[0] != workers.encoders[1]
    assert not any(request.spoiled for request in workers.encodes)


class Unforeseen(ScriptedWorkers):
    """PD workers whose first calls end with an unexpected error."""

    def __init__(self, failures: int) -> None:
        super().__init__(counting)
        self.failures = failures
        self.decoders: list[int] = []

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        if isinstance(message, DecodeRequest):
            self.decoders.append(instance)
            if len(self.decoders) <= self.failures:
                raise AuricleError("division by zero")
        return await super().call(message, reply, instance, seconds)


async def test_an_error_that_nobody_foresaw_is_tried_once_on_another_worker() -> None:
    """The worker may be one that fails for any request."""
    workers = Unforeseen(failures=1)
    events = await feed(session(workers), GRID)
    assert isinstance(events[-1], SessionDone)
    assert workers.decoders[0] != workers.decoders[1]


async def test_a_request_that_fails_on_two_workers_is_not_tried_on_a_third() -> None:
    workers = Unforeseen(failures=1_000)
    events = await feed(session(workers), GRID)
    assert events[-1] == Failed("internal", "division by zero")
    assert len(workers.decoders) == 2


async def test_a_worker_that_fails_again_says_nothing_of_the_request() -> None:
    """It fails all requests, and for a moment it is the only one."""

    class Alone(Unforeseen):
        async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
            return [1] if len(self.decoders) < 2 else [2]

    workers = Alone(failures=2)
    events = await feed(session(workers), GRID)
    assert workers.decoders[:3] == [1, 1, 2]
    assert isinstance(events[-1], SessionDone)


@pytest.mark.parametrize(
    ("known", "samples", "at_once"),
    [
        (0, GRID, True),
        (GRID, 2 * GRID, True),
        (0, 20_000, False),  # more than a second at once
        (31 * 16_000, 31 * 16_000 + GRID, False),  # a long segment has many keys
    ],
)
async def test_only_what_takes_a_moment_is_computed_on_the_event_loop(
    known: int, samples: int, at_once: bool
) -> None:
    threads: list[threading.Thread] = []

    class Watched(SegmentAudio):
        def windows(self, samples: int) -> tuple[Window, ...]:
            threads.append(threading.current_thread())
            return super().windows(samples)

        def windows_at_once(self, samples: int) -> tuple[Window, ...] | None:
            threads.append(threading.current_thread())
            return super().windows_at_once(samples)

    audio = Watched(VIEW.geometry, KeyScheme(VIEW.fingerprint, "float32", "t"))
    noise = np.random.default_rng(1).integers(-9_000, 9_000, samples).astype(np.int16)
    audio.push(noise)
    if known:
        SegmentAudio.windows(audio, known)
    workers = Readers()
    recognizer = Recognizer("s", "t", EncodePool(workers, 60.0, 3), PdPool(workers, 60.0, 3))  # type: ignore[arg-type]
    task = DecodeTask(PROMPT.head(""), PROMPT.tail(None), 20, final=True)
    await recognizer.decode(audio, samples, task, UsageMeter())
    assert [one is threading.main_thread() for one in threads] == [at_once]
