"""The witness: a live session of new speech, which an attack must not affect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_int16
from auricle.client import AuricleError, Client, Done, Partial, Ready
from auricle_testing import recordings

_PACKET = SAMPLE_RATE // 10
_CHUNK_MS = 320
_NOISE = 0.0015
_OPEN_SECONDS, _DONE_SECONDS = 10.0, 30.0


def speech(seed: int) -> Iterator[Int16]:
    """Yield packets of 100 ms without end: the recordings in any order.

    Each has a gain and noise of its own, so that none of it is in a cache.
    """
    rng = np.random.default_rng(seed)
    while True:
        name = recordings.NAMES[rng.integers(len(recordings.NAMES))]
        samples = rng.uniform(0.5, 1.0) * recordings.samples(name)
        samples = samples + rng.normal(0, _NOISE, len(samples)).astype(np.float32)
        whole = to_int16(np.pad(samples, (0, -len(samples) % _PACKET)).astype(np.float32))
        yield from whole.reshape(-1, _PACKET)


@dataclass
class Account:
    """The sent packets and the results of a session.

    `lags` are (time, seconds) of each partial after its last sample, and of the last text after the
    end. `error` is empty after a session without one.
    """

    packets: list[Int16] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)
    text: str = ""
    error: str = ""
    session: str = ""

    def during(self, began: float, ended: float) -> list[float]:
        """The lags between two times (monotonic)."""
        return [lag for when, lag in self.lags if began <= when <= ended]


class Witness:
    """One session, from `begin` to `end`, at the pace of speech."""

    def __init__(self, url: str, key: str, packets: Iterator[Int16]) -> None:
        self._client = Client(url, api_key=key or None, resume_seconds=0, on_lost=self._lost)
        self._packets = packets
        self._enough, self._ready = asyncio.Event(), asyncio.Event()
        self._began = self._ended = 0.0
        self._task: asyncio.Task[None] | None = None
        self.account = Account()

    def _lost(self, line: str) -> None:
        self.account.error = line

    async def begin(self) -> None:
        """Start the session; return once the server is ready, or after a failure."""
        self._task = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def end(self) -> Account:
        """End the audio, and return the account after the last text."""
        self._enough.set()
        return await self.finished()

    async def finished(self) -> Account:
        """Return the account after all audio and the last text."""
        assert self._task is not None
        await self._task
        return self.account

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(_OPEN_SECONDS) as limit:
                stream = self._client.stream(self._paced(limit), chunk_ms=_CHUNK_MS)
                async with aclosing(stream) as events:
                    async for event in events:
                        now = time.monotonic()
                        if isinstance(event, Ready):
                            self.account.session = event.session
                            limit.reschedule(None)
                            self._ready.set()
                        elif isinstance(event, Partial):
                            lag = now - self._began - event.audio_ms / 1000
                            self.account.lags.append((now, lag))
                        elif isinstance(event, Done):
                            self.account.text = event.text
                            self.account.lags.append((now, now - (self._ended or now)))
        except (AuricleError, OSError) as error:  # TimeoutError is an OSError
            self.account.error = f"{type(error).__name__}: {error}"

    async def _paced(self, limit: asyncio.Timeout) -> AsyncIterator[Int16]:
        await self._ready.wait()
        self._began = time.monotonic()
        for packet in self._packets:
            due = self._began + (len(self.account.packets) + 1) * _PACKET / SAMPLE_RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self._enough.is_set():
                break
            self.account.packets.append(packet)
            yield packet
        self._ended = time.monotonic()
        limit.reschedule(asyncio.get_running_loop().time() + _DONE_SECONDS)


async def alone(url: str, key: str, packets: list[Int16]) -> Account:
    """Send the same audio at the same pace, without an attack."""
    witness = Witness(url, key, iter(packets))
    await witness.begin()
    return await witness.finished()
