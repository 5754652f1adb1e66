"""Audio sources: files, arrays, iterators (async or not), and the microphone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.findings import Findings
from auricle.audio.pcm import Int16, to_int16
from auricle.core.errors import BadRequest

# Little-endian int16 as bytes, or samples: int16, or floats in [-1, 1]. One channel.
Pcm = bytes | bytearray | memoryview | npt.NDArray[Any]
Source = str | os.PathLike[str] | Pcm | Iterable[Pcm] | AsyncIterable[Pcm]
T = TypeVar("T")
_SAMPLE_BYTES = 2
# The time of a file, which silence fills up where it has no audio.
_MOST_SECONDS = 48 * 3600.0


@dataclass(frozen=True)
class AudioSource:
    """A session's audio: packets of int16 of any size, at `rate` samples per second.

    `at_hand`: all of it is available at once; `live`: it arrives in real time.
    """

    packets: AsyncGenerator[Int16, None]
    rate: int
    at_hand: bool
    live: bool


def open_source(source: Source, sample_rate: int | None) -> AudioSource:
    """Return the audio of `source`; a separate thread reads iterators that may block.

    Raises BadRequest for an object that is not a source, a missing file, or a file together with a
    `sample_rate`. Its `packets` raise BadRequest for invalid audio, and the source's own errors.
    """
    rate: int = sample_rate if sample_rate is not None else _rate_of(source)
    if isinstance(source, str | os.PathLike):
        if sample_rate is not None:
            raise BadRequest(
                "sample_rate is for samples: leave it out for a file, which has its own"
            )
        return AudioSource(
            from_thread(file_blocks(Path(source))), SAMPLE_RATE, at_hand=True, live=False
        )
    if isinstance(source, bytes | bytearray | memoryview | np.ndarray):
        return AudioSource(_samples(_once(source)), rate, at_hand=True, live=False)
    live = bool(getattr(source, "live", False))
    if isinstance(source, AsyncIterable):
        return AudioSource(_samples(source), rate, at_hand=False, live=live)
    if isinstance(source, Iterable):
        return AudioSource(_samples(from_thread(source)), rate, at_hand=False, live=live)
    raise BadRequest(
        f"a {type(source).__name__} is not an audio source; use a path, bytes, an array, "
        "or an iterator of bytes or arrays"
    )


def _rate_of(source: object) -> int:
    """The rate that a source, such as a microphone, supplies."""
    return int(getattr(source, "sample_rate", SAMPLE_RATE))


def file_blocks(file: Path, findings: Findings | None = None) -> Iterator[Int16]:
    """Return the 16 kHz mono blocks of a file in any format that the server accepts; they block.

    `findings` collects the losses; without it Python's warnings report them. Raises BadRequest
    if the file does not exist; the blocks do if it cannot be read or decoded.
    """
    if not file.is_file():
        raise BadRequest(f"no such audio file: {file}")
    return _decoded(file, findings)


def _decoded(file: Path, findings: Findings | None) -> Iterator[Int16]:
    # The import of PyAV is slow, and only files need it.
    from auricle.audio.recording import RecordingLimits, filled, read_recording

    found = Findings() if findings is None else findings
    samples = 0
    try:
        with file.open("rb") as opened:
            limits = RecordingLimits(seconds=_MOST_SECONDS)
            for block in filled(read_recording(opened, file.name, limits, findings=found)):
                samples += len(block)
                yield block
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from None
    if findings is None:
        for text in found.warnings(samples / SAMPLE_RATE):
            warnings.warn(f"{file.name}: {text}", RuntimeWarning, stacklevel=2)


async def _once(pcm: Pcm) -> AsyncGenerator[Pcm, None]:
    yield pcm


async def _samples(packets: AsyncIterable[Pcm]) -> AsyncGenerator[Int16, None]:
    """Yield packets as samples.

    Packets of bytes may end within a sample; half a sample at the end is dropped, as by the server.
    """
    half = b""
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(packets, AsyncGenerator):
            await stack.enter_async_context(contextlib.aclosing(packets))
        async for packet in packets:
            if isinstance(packet, np.ndarray):
                yield _int16(packet)
                continue
            if not isinstance(packet, bytes | bytearray | memoryview):
                raise BadRequest(
                    f"the source yielded a {type(packet).__name__}; it must yield bytes or arrays"
                )
            data = half + bytes(packet)
            whole = len(data) - len(data) % _SAMPLE_BYTES
            half = data[whole:]
            yield np.frombuffer(data[:whole], "<i2")


def _int16(samples: npt.NDArray[Any]) -> Int16:
    if samples.ndim != 1:
        raise BadRequest(f"audio must have one channel, of shape (samples,), not {samples.shape}")
    if samples.dtype == np.int16:
        return samples
    if samples.dtype.kind != "f":
        raise BadRequest(f"samples must be int16 or floats in [-1, 1], not {samples.dtype}")
    return to_int16(samples.astype(np.float32))


async def from_thread(items: Iterable[T]) -> AsyncGenerator[T, None]:
    """Yield the items of a blocking iterator, which one thread reads one at a time.

    After this is closed, the thread ends with its current item and closes the iterator.
    """
    loop = asyncio.get_running_loop()
    requests: queue.SimpleQueue[asyncio.Future[T | _End] | None] = queue.SimpleQueue()
    # A daemon: an iterator that blocks forever must not keep the program alive.
    threading.Thread(
        target=_answer, args=(items, requests, loop), name="auricle-client-source", daemon=True
    ).start()
    try:
        while True:
            answer: asyncio.Future[T | _End] = loop.create_future()
            requests.put(answer)
            item = await answer
            if isinstance(item, _End):
                return
            yield item
    finally:
        requests.put(None)


class _End:
    """The end of the items."""


def _answer(
    items: Iterable[T],
    requests: queue.SimpleQueue[asyncio.Future[T | _End] | None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    def resolve(answer: asyncio.Future[T | _End], item: T | _End, error: Exception | None) -> None:
        if answer.done():  # cancelled
            return
        if error is None:
            answer.set_result(item)
        else:
            answer.set_exception(error)

    iterator: Iterator[T] | None = None
    while (answer := requests.get()) is not None:
        item: T | _End = _End()
        failed: Exception | None = None
        try:
            if iterator is None:
                iterator = iter(items)
            item = next(iterator, item)
        except BaseException as error:  # the caller's own; raised where the events are read
            failed = _passable(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(resolve, answer, item, failed)
    close = getattr(iterator, "close", None)
    if close is not None:
        close()


def _passable(error: BaseException) -> Exception:
    """Return an error that can be raised on an event loop, where some have another meaning."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the source of the audio ended with {error!r}")


_PACKETS_PER_SECOND = 10


class Microphone:
    """A microphone, recorded until `stop`; needs `pip install auricle[client,microphone]`.

    Each iteration opens the device again. `lost` counts overflows: audio was lost before a packet,
    as the packets were not read in time.
    """

    live = True

    def __init__(self, device: int | str | None = None, sample_rate: int = SAMPLE_RATE) -> None:
        """`device` is a number or name of `python -m sounddevice`; None selects the default."""
        self.sample_rate = sample_rate
        self.lost = 0
        self._device = device
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the audio: the remaining text and `done` follow. Any thread may call this."""
        self._stopped.set()

    def __iter__(self) -> Iterator[bytes]:
        """Yield 100 ms at a time; blocks. Raises BadRequest if the device does not exist."""
        try:
            import sounddevice
        except (ImportError, OSError) as error:  # OSError: PortAudio is not installed
            raise BadRequest(
                f"a microphone needs sounddevice and PortAudio ({error}): "
                "pip install 'auricle[client,microphone]', and libportaudio2 on Debian and Ubuntu"
            ) from None
        packet = self.sample_rate // _PACKETS_PER_SECOND
        try:
            with sounddevice.RawInputStream(
                samplerate=self.sample_rate,
                blocksize=packet,
                device=self._device,
                channels=1,
                dtype="int16",
            ) as stream:
                while not self._stopped.is_set():
                    data, overflowed = stream.read(packet)
                    self.lost += bool(overflowed)
                    yield bytes(data)
        except (sounddevice.PortAudioError, ValueError) as error:
            raise BadRequest(f"the microphone cannot be used: {error}") from None
