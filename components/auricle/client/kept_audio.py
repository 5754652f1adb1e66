"""A client's audio on its way: what is not sent yet, and what a server may want to have again."""

from __future__ import annotations

import asyncio

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client.errors import ConnectionLost

_SAMPLE_BYTES = 2
_PACKET_SECONDS = 5  # of one message, at most
# A server asks for what follows the last final text: a segment, and what has not reached it yet.
# Of more than so much, what was sent first is forgotten.
_MOST_KEPT_SECONDS = 900
_MOST_UNSENT_SECONDS = 60


class SourceFailed(Exception):
    """The source of the audio raised `error`, which is the caller's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class KeptAudio:
    """Samples in order, by number from the first. Use it on one event loop.

    One task puts audio in, one sends it; positions are sample numbers.
    """

    def __init__(
        self, rate: int = SAMPLE_RATE, *, most: int | None = None, most_unsent: int | None = None
    ) -> None:
        """The audio has `rate` samples per second. About `most` samples are kept in all, and `put`
        waits while `most_unsent` were not sent."""
        self._packet = _PACKET_SECONDS * rate
        self._most = _MOST_KEPT_SECONDS * rate if most is None else most
        self._most_unsent = _MOST_UNSENT_SECONDS * rate if most_unsent is None else most_unsent
        self._bytes = bytearray()
        self._start = 0  # position of the first sample kept
        self._sent = 0  # position up to which audio was sent on any connection
        self._ended = False
        self._failure: Exception | None = None  # of the source
        self._changed = asyncio.Event()

    @property
    def end(self) -> int:
        """The position after the last sample."""
        return self._start + len(self._bytes) // _SAMPLE_BYTES

    async def put(self, pcm: Int16) -> None:
        """Append audio; waits while too much was not sent."""
        while self.end - self._sent >= self._most_unsent:
            await self._change()
        self._bytes += pcm.astype("<i2", copy=False).tobytes()
        self.forget_before(min(self.end - self._most, self._sent))
        self._changed.set()

    def finish(self) -> None:
        """There is no more audio."""
        self._ended = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """There is no more audio, as its source failed; who asks for what follows is told so."""
        self._failure = error
        self._changed.set()

    def forget_before(self, position: int) -> None:
        """No server will want the audio before `position` any more."""
        if position > self._start:
            del self._bytes[: (position - self._start) * _SAMPLE_BYTES]
            self._start = position

    async def packet(self, position: int) -> bytes | None:
        """Return the next samples from `position`, at most 5 s; None at the end of the audio.

        Raises ConnectionLost if they are not kept any more, and SourceFailed.
        """
        if position < self._start:
            raise ConnectionLost(
                f"the session cannot go on: its audio from sample {position} is needed again, and "
                f"only that from {self._start} is kept"
            )
        while position >= self.end and not self._ended:
            if self._failure is not None:
                raise SourceFailed(self._failure)
            await self._change()
        at = (position - self._start) * _SAMPLE_BYTES
        return bytes(self._bytes[at : at + self._packet * _SAMPLE_BYTES]) or None

    def sent(self, position: int) -> None:
        """The audio before `position` was sent."""
        self._sent = max(self._sent, position)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
