"""`Client`, for live sessions and recordings on an event loop; `SyncClient`, which blocks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from auricle.client.connection import Capabilities, capabilities
from auricle.client.events import StreamEvent, typed
from auricle.client.jobs import RecordingJob, find_job, job_transcript, remove_job, submit_recording
from auricle.client.options import StreamOptions, TranscribeOptions
from auricle.client.recordings import (
    ANSWER_SECONDS,
    Transcript,
    transcribe_recording,
    transcribe_recordings,
)
from auricle.client.sources import Source, open_source
from auricle.client.stream import RESUME_SECONDS, ConnectionOptions, Message, stream_audio
from auricle.core.errors import AuricleError, BadRequest

DEFAULT_URL = "http://127.0.0.1:8080"


class Client:
    """A client of the frontends `urls` of one deployment.

    It holds no connection between calls; any number of sessions may be open at a time.
    """

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_URL,
        *,
        api_key: str | None = None,
        resume_seconds: float = RESUME_SECONDS,
        on_lost: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """After a lost connection, resume the session at the next of `urls`.

        The client tries for `resume_seconds`; `on_lost` receives a line each time. Raises
        BadRequest without an address.
        """
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        if not self._urls:
            raise BadRequest("urls is empty: give the address of a server")
        self._api_key = api_key
        self._resume_seconds = resume_seconds
        self._on_lost = on_lost

    async def stream(
        self, source: Source, **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[StreamEvent, None]:
        """Transcribe live, and yield each event once; the first is `Ready`, the last `Done`.

        `source` is a path to a file of any common format, or one channel of samples: bytes, an
        array, or an iterator of these, async or not; a thread reads one that may block. The
        session ends with the source; to leave early, close this (`contextlib.aclosing`).

        Raises BadRequest for an invalid source or option (`param` names it), Unauthorized or
        Forbidden for the key, Overloaded or RateLimited if the server is full
        (`retry_after_seconds` has the time to retry), ServerUnreachable if no server answers,
        ConnectionLost if a session could not be resumed, errors of the source itself, and another
        AuricleError if the server fails.
        """
        audio = open_source(source, options.get("sample_rate"))
        connection = ConnectionOptions(
            urls=self._urls,
            live=options.get("live", audio.live),
            api_key=self._api_key,
            resume_seconds=self._resume_seconds,
            on_sent=options.get("on_sent", lambda _seconds: None),
            on_lost=self._on_lost,
        )
        events = stream_audio(_start(audio.rate, options), audio, connection)
        async with aclosing(events):
            async for message in events:
                event = typed(message)
                if event is not None:
                    yield event

    async def transcribe(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> Transcript:
        """Transcribe a recording of any common format, which the server decodes.

        Raises as `stream`, and DeadlineExceeded without an answer in time.
        """
        return await transcribe_recording(self._urls, self._api_key, path, options)

    async def transcribe_many(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        jobs: int = 4,
        **options: Unpack[TranscribeOptions],
    ) -> AsyncGenerator[tuple[Path, Transcript | AuricleError], None]:
        """Transcribe recordings, at most `jobs` at a time, and yield each as it is done.

        While the server is full, a recording waits and is sent again, until its deadline. The
        outcome of a recording that fails is its error.

        Raises ServerUnreachable if no server answers, Unauthorized or Forbidden for the key, and
        BadRequest for invalid `jobs`.
        """
        many = transcribe_recordings(self._urls, self._api_key, paths, jobs, options)
        async with aclosing(many):
            async for one in many:
                yield one

    async def submit(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> RecordingJob:
        """Send a recording, which the server transcribes later, and return the job.

        Raises as `transcribe`.
        """
        return await submit_recording(self._urls, self._api_key, path, options)

    async def job(self, job: str) -> RecordingJob:
        """Return a job, by its id, as it is now. Raises as `transcribe`."""
        return await find_job(self._urls, self._api_key, job)

    async def wait(self, job: str, *, timeout_seconds: float = ANSWER_SECONDS) -> Transcript:
        """Return the transcript of a job, by its id, once it has ended.

        Raises the error with which the recording failed, and as `transcribe`.
        """
        return await job_transcript(self._urls, self._api_key, job, timeout_seconds)

    async def remove(self, job: str) -> None:
        """Cancel a job, by its id, or remove its answer. Raises as `transcribe`."""
        await remove_job(self._urls, self._api_key, job)

    async def capabilities(self) -> Capabilities:
        """Return the features that sessions may request.

        Raises as `stream`, and DeadlineExceeded without an answer in time.
        """
        return await capabilities(self._urls, self._api_key)


# fmt: off
_SENT = (
    "language", "languages", "context", "chunk_ms", "partials", "endpointing", "words", "diarize",
    "word_times", "max_speakers", "translate", "terms",
)
# fmt: on


def _start(rate: int, options: StreamOptions) -> Message:
    """Return the session's first message; the server has defaults for missing options."""
    start: Message = {"type": "start", "sample_rate": rate}
    for name in _SENT:
        if (value := options.get(name)) is not None:
            start[name] = value
    return start


T = TypeVar("T")


class SyncClient:
    """`Client` with blocking calls, for any thread, also in a program with an event loop.

    A thread sends audio and keeps connections alive while the program handles an event.
    """

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_URL,
        *,
        api_key: str | None = None,
        resume_seconds: float = RESUME_SECONDS,
        on_lost: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """As `Client`; that thread calls `on_lost`, and `on_sent` of a session."""
        self._client = Client(urls, api_key=api_key, resume_seconds=resume_seconds, on_lost=on_lost)

    def stream(
        self, source: Source, **options: Unpack[StreamOptions]
    ) -> Generator[StreamEvent, None, None]:
        """Yield the session's events, as `Client.stream`; close this to leave early."""
        yield from _yielded(self._client.stream(source, **options))

    def transcribe(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> Transcript:
        """Transcribe a recording, as `Client.transcribe`."""
        with _LoopThread() as loop:
            return loop.run(self._client.transcribe(path, **options))

    def transcribe_many(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        jobs: int = 4,
        **options: Unpack[TranscribeOptions],
    ) -> Generator[tuple[Path, Transcript | AuricleError], None, None]:
        """Transcribe recordings, as `Client.transcribe_many`; close this to leave early."""
        yield from _yielded(self._client.transcribe_many(paths, jobs=jobs, **options))

    def submit(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> RecordingJob:
        """Send a recording, which the server transcribes later, as `Client.submit`."""
        with _LoopThread() as loop:
            return loop.run(self._client.submit(path, **options))

    def job(self, job: str) -> RecordingJob:
        """Return a job as it is now, as `Client.job`."""
        with _LoopThread() as loop:
            return loop.run(self._client.job(job))

    def wait(self, job: str, *, timeout_seconds: float = ANSWER_SECONDS) -> Transcript:
        """Return the transcript of a job once it has ended, as `Client.wait`."""
        with _LoopThread() as loop:
            return loop.run(self._client.wait(job, timeout_seconds=timeout_seconds))

    def remove(self, job: str) -> None:
        """Cancel a job, or remove its answer, as `Client.remove`."""
        with _LoopThread() as loop:
            loop.run(self._client.remove(job))

    def capabilities(self) -> Capabilities:
        """Return the features that sessions may request, as `Client.capabilities`."""
        with _LoopThread() as loop:
            return loop.run(self._client.capabilities())


def _yielded(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield what `items` yields on an event loop in another thread."""
    with _LoopThread() as loop:
        turn = asyncio.Lock()  # closing waits for an interrupted call
        try:
            while (item := loop.run(_next(items, turn))) is not None:
                yield item
        finally:
            loop.run(_close(items, turn))


async def _next(items: AsyncGenerator[T, None], turn: asyncio.Lock) -> T | None:
    async with turn:
        return await anext(items, None)


async def _close(items: AsyncGenerator[T, None], turn: asyncio.Lock) -> None:
    async with turn:
        await items.aclose()


class _LoopThread:
    """An event loop in a separate thread, for the duration of the block."""

    def __enter__(self) -> _LoopThread:
        # Created here, so that the caller gets an error; in the thread it would be lost.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="auricle-client-loop", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and return its result; cancel it if the wait is interrupted."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()

    def _serve(self) -> None:
        with self._runner:
            self._runner.run(self._over.wait())
