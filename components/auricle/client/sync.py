"""The client for programs without an event loop: the same calls, which block."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

from auricle.client.client import DEFAULT_URL, Client
from auricle.client.events import StreamEvent
from auricle.client.http_calls import Capabilities
from auricle.client.options import StreamOptions, TranscribeOptions
from auricle.client.recordings import Transcript
from auricle.client.sources import Source
from auricle.client.stream import RESUME_SECONDS

T = TypeVar("T")


class SyncClient:
    """`Client`, for any thread, also of a program that has an event loop.

    While the program works on an event, a thread sends audio on and keeps connections alive.
    """

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_URL,
        *,
        api_key: str | None = None,
        resume_seconds: float = RESUME_SECONDS,
        on_lost: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """As `Client`; `on_lost`, and `on_sent` of a session, are called in that thread."""
        self._client = Client(urls, api_key=api_key, resume_seconds=resume_seconds, on_lost=on_lost)

    def stream(
        self, source: Source, **options: Unpack[StreamOptions]
    ) -> Generator[StreamEvent, None, None]:
        """Yield the session's events, as `Client.stream`; close this to leave it early."""
        with _LoopThread() as loop:
            events = self._client.stream(source, **options)
            turn = asyncio.Lock()  # closing waits for a call that was interrupted
            try:
                while (event := loop.run(_next(events, turn))) is not None:
                    yield event
            finally:
                loop.run(_close(events, turn))

    def transcribe(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> Transcript:
        """Transcribe a recording, as `Client.transcribe`."""
        with _LoopThread() as loop:
            return loop.run(self._client.transcribe(path, **options))

    def capabilities(self) -> Capabilities:
        """Return what sessions may ask for beside text, as `Client.capabilities`."""
        with _LoopThread() as loop:
            return loop.run(self._client.capabilities())


async def _next(
    events: AsyncGenerator[StreamEvent, None], turn: asyncio.Lock
) -> StreamEvent | None:
    async with turn:
        return await anext(events, None)


async def _close(events: AsyncGenerator[StreamEvent, None], turn: asyncio.Lock) -> None:
    async with turn:
        await events.aclose()


class _LoopThread:
    """An event loop in a thread of its own, for as long as the block lasts."""

    def __enter__(self) -> _LoopThread:
        # Made here, where an error is heard: the thread could only die of it.
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
        """Return the result of `work`, run on the loop. If the wait is interrupted, cancel it."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()

    def _serve(self) -> None:
        with self._runner:
            self._runner.run(self._over.wait())
