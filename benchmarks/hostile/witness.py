"""The witness: a live session of fresh speech beside each attack, which must not notice it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import websockets

from auricle.audio.pcm import Int16, to_int16
from auricle_testing import recordings

RATE = 16_000
_PACKET = RATE // 10
_CHUNK_MS = 320
_NOISE = 0.0015
_OPEN_SECONDS = 10.0
_DONE_SECONDS = 30.0


def speech(seed: int) -> Iterator[Int16]:
    """Yield packets of 100 ms without end: the recordings in any order, each time with a gain and
    noise of its own, so that nothing of it is in any cache."""
    rng = np.random.default_rng(seed)
    while True:
        name = recordings.NAMES[rng.integers(len(recordings.NAMES))]
        samples = rng.uniform(0.5, 1.0) * recordings.samples(name)
        samples = samples + rng.normal(0, _NOISE, len(samples)).astype(np.float32)
        whole = to_int16(np.pad(samples, (0, -len(samples) % _PACKET)).astype(np.float32))
        yield from whole.reshape(-1, _PACKET)


@dataclass
class Account:
    """What the witness saw. `lags` are (when, seconds): of each partial since its last sample was
    due, and of the last text since the end. `error` is empty if the session ended well."""

    packets: list[Int16] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)
    text: str = ""
    error: str = ""
    session: str = ""

    def during(self, began: float, ended: float) -> list[float]:
        """The lags seen between two moments (monotonic)."""
        return [lag for when, lag in self.lags if began <= when <= ended]


class Witness:
    """One session, from `begin` to `end`."""

    def __init__(self, url: str, key: str, packets: Iterator[Int16]) -> None:
        self._url = url.replace("http", "ws", 1) + "/v1/audio/stream"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._packets = packets
        self._enough = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.account = Account()

    async def begin(self) -> None:
        """Start the session; returns once the server is ready for it, or it has failed."""
        self._task = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def end(self) -> Account:
        """End the audio, and return what was seen once the last text is there."""
        self._enough.set()
        return await self.finished()

    async def finished(self) -> Account:
        """Return what was seen once all audio was sent and the last text is there."""
        assert self._task is not None
        await self._task
        return self.account

    async def _run(self) -> None:
        try:
            async with websockets.connect(
                self._url,
                additional_headers=self._headers,
                ping_timeout=None,
                open_timeout=_OPEN_SECONDS,
            ) as socket:
                await self._converse(socket)
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            self.account.error = f"{type(error).__name__}: {error}"

    async def _converse(self, socket: websockets.ClientConnection) -> None:
        start = {"type": "start", "sample_rate": RATE, "chunk_ms": _CHUNK_MS}
        await socket.send(json.dumps(start))
        first = json.loads(await asyncio.wait_for(socket.recv(), _OPEN_SECONDS))
        if first["type"] != "ready":
            self.account.error = json.dumps(first)
            return
        self.account.session = first["session"]
        self._ready.set()
        began = time.monotonic()
        ended: list[float] = []
        sending = asyncio.create_task(self._send(socket, began, ended))
        try:
            await self._listen(socket, began, ended)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(
        self, socket: websockets.ClientConnection, began: float, ended: list[float]
    ) -> None:
        for packet in self._packets:
            due = began + (len(self.account.packets) + 1) * _PACKET / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self._enough.is_set():
                break
            await socket.send(packet.astype("<i2").tobytes())
            self.account.packets.append(packet)
        ended.append(time.monotonic())
        await socket.send('{"type": "end"}')

    async def _listen(
        self, socket: websockets.ClientConnection, began: float, ended: list[float]
    ) -> None:
        while True:
            seconds = _DONE_SECONDS if ended else 3600.0
            try:
                async with asyncio.timeout(min(seconds, 1.0)):
                    message = json.loads(await socket.recv())
            except TimeoutError:
                if ended and time.monotonic() > ended[0] + _DONE_SECONDS:
                    self.account.error = f"no last text within {_DONE_SECONDS:g} s"
                    return
                continue
            now = time.monotonic()
            if message["type"] == "partial":
                lag = now - began - message["audio_ms"] / 1000
                self.account.lags.append((now, lag))
            elif message["type"] == "done":
                self.account.text = message["text"]
                self.account.lags.append((now, now - (ended or [now])[0]))
                return
            elif message["type"] in ("error", "going_away"):
                self.account.error = json.dumps(message)
                return


async def alone(url: str, key: str, packets: list[Int16]) -> Account:
    """Say the same again, at the same pace, with no attack beside it."""
    witness = Witness(url, key, iter(packets))
    await witness.begin()
    return await witness.finished()
