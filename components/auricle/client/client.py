"""The library's entry: live sessions and recordings, on an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Unpack

from auricle.client.events import StreamEvent, typed
from auricle.client.http_calls import Capabilities, capabilities
from auricle.client.options import StreamOptions, TranscribeOptions
from auricle.client.recordings import Transcript, transcribe_recording
from auricle.client.sources import Source, open_source
from auricle.client.stream import RESUME_SECONDS, Message, stream_audio
from auricle.errors import BadRequest

DEFAULT_URL = "http://127.0.0.1:8080"


class Client:
    """A client of the servers `urls`, the frontends of one deployment.

    It holds no connection between calls, and any number of sessions may be open at a time.
    """

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_URL,
        *,
        api_key: str | None = None,
        resume_seconds: float = RESUME_SECONDS,
        on_lost: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """A session that loses its connection is resumed at the next of `urls`.

        That is tried for `resume_seconds`, and `on_lost` gets a line each time. Raises BadRequest
        without an address.
        """
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        if not self._urls:
            raise BadRequest("urls has no address of a server")
        self._api_key = api_key
        self._resume_seconds = resume_seconds
        self._on_lost = on_lost

    async def stream(
        self, source: Source, **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[StreamEvent, None]:
        """Transcribe live, and yield each event once; the first is `Ready`, the last `Done`.

        `source` is a path to a file of any common format, or one channel of samples: bytes, an
        array, or an iterator of these, async or not; one that blocks is read in a thread. The
        session ends when the source does; to leave early, close this (`contextlib.aclosing`).

        Raises BadRequest for what is wrong with the source or an option (`param` names it),
        Unauthorized or Forbidden for the key, Overloaded or RateLimited if the server has no room
        (`retry_after_seconds` says when to try again), ServerUnreachable if nobody answers,
        ConnectionLost if a session could not be resumed, what the source itself raises, and another
        AuricleError if the server fails.
        """
        audio = open_source(source, options.get("sample_rate"))
        events = stream_audio(
            self._urls,
            _start(audio.rate, options),
            audio,
            live=options.get("live", audio.live),
            api_key=self._api_key,
            resume_seconds=self._resume_seconds,
            on_sent=options.get("on_sent", lambda _seconds: None),
            on_lost=self._on_lost,
        )
        async with aclosing(events):
            async for message in events:
                event = typed(message)
                if event is not None:
                    yield event

    async def transcribe(
        self, path: str | os.PathLike[str], **options: Unpack[TranscribeOptions]
    ) -> Transcript:
        """Transcribe a recording of any common format, which the server decodes.

        Raises as `stream` does; DeadlineExceeded if there is no answer in time.
        """
        return await transcribe_recording(self._urls, self._api_key, path, options)

    async def capabilities(self) -> Capabilities:
        """Return what sessions may ask for beside text.

        Raises as `stream` does; DeadlineExceeded if there is no answer in time.
        """
        return await capabilities(self._urls, self._api_key)


_SENT = (
    *("language", "languages", "context", "chunk_ms", "partials", "endpointing"),
    *("words", "diarize", "translate", "terms"),
)


def _start(rate: int, options: StreamOptions) -> Message:
    """Return the session's first message. What is not asked for is left to the server."""
    start: Message = {"type": "start", "sample_rate": rate}
    for name in _SENT:
        if (value := options.get(name)) is not None:
            start[name] = value
    return start
