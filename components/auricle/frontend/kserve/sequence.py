"""One sequence of requests: a live session, between the stream it is part of and processors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from auricle.errors import AuricleError, Forbidden, Overloaded, Unauthorized
from auricle.frontend.channel import Channel
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.front_door import farewell
from auricle.frontend.doors.live import LiveSession, Record
from auricle.frontend.frontend import Frontend
from auricle.frontend.kserve.answers import failed, heard
from auricle.frontend.kserve.asking import Asked
from auricle.messages.sessions import Final, Partial
from auricle.tasks import Interrupted, Patience, first_failure_or, unless

NAME = "kserve"
_RECONNECT_SECONDS = 1.0


@dataclass(frozen=True)
class Chunk:
    """One request: its audio as 16-bit samples, or what is wrong with it."""

    asked: Asked
    samples: bytes = b""
    error: AuricleError | None = None


@dataclass(frozen=True)
class Caller:
    """Whose sequences they are: `host` stands for a client without a key."""

    client: Client
    host: str
    address: str


class Sequence:
    """`run` serves it, in a task of its own, while the stream's reader calls `put`."""

    def __init__(
        self,
        frontend: Frontend,
        caller: Caller,
        first: Asked,
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """`first` is the request that starts it; `send` sends a response."""
        self._frontend = frontend
        self._door = frontend.front_door
        self._caller = caller
        self._options = first.options
        self._asked = first  # the request that was heard last
        self._warnings = first.warnings
        self._send = send
        self._record = Record(NAME, caller.address)
        # What was read of a sequence is heard before more is: the client gets backpressure.
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(maxsize=1)
        self._patience = Patience()
        self._over = asyncio.Event()
        self._ended = False  # all of its audio was heard
        self._farewell: str | None = None  # why it ends early, without an error

    async def put(self, chunk: Chunk) -> None:
        """Hand over a request; waits while there is no room. One that has failed takes all."""
        if self._chunks.full() or self._over.is_set():
            await unless(self._over, self._chunks.put(chunk))
        else:
            self._chunks.put_nowait(chunk)

    @property
    def over(self) -> bool:
        """Whether it has ended, or failed."""
        return self._over.is_set()

    async def end(self) -> None:
        """End a sequence whose client has ended the stream without it."""
        await self.put(Chunk(replace(self._asked, ends=True)))

    async def run(self) -> None:
        """Serve the sequence until done; its own errors are told.

        Raises those that end the whole stream: the key was withdrawn, or the client has left.
        """
        live, caller = self._frontend.live_sessions, self._caller
        try:
            with live.settled(self._record):
                self._frontend.check_model(self._asked.model)
                async with live.session(self._record, caller.client, caller.host) as session:
                    await self._serve(session)
            if self._farewell is not None:
                raise Overloaded(self._farewell, _RECONNECT_SECONDS)
        except (Unauthorized, Forbidden):
            raise
        except AuricleError as error:
            await self._send(failed(self._asked, error))
        finally:
            self._over.set()
            self._patience.close()

    async def _serve(self, session: LiveSession) -> None:
        options = self._options
        channel = Channel(
            *(self._frontend, session, options.sample_rate, "pcm_s16le"),
            language=options.language,
            context=options.context,
            silence=options.silence_ms,
            partials=options.partials,
        )
        with self._door.interrupting(self._patience.interrupt):
            parts = (self._read(channel), channel.pump())
            writing = asyncio.create_task(self._write(channel))
            await first_failure_or(writing, [asyncio.create_task(part) for part in parts])

    async def _read(self, channel: Channel) -> None:
        idle = self._frontend.settings.idle_timeout_seconds
        while not self._ended:
            if self._door.ends(lambda: channel.resting):
                await self._leave(channel)
                return
            try:
                chunk = await self._patience.wait(
                    idle, self._chunks.get(), "the next request of the sequence"
                )
            except Interrupted:
                continue
            self._asked = chunk.asked
            if chunk.error is not None:
                raise chunk.error
            self._frontend.metrics.bytes("grpc", len(chunk.samples))
            await channel.take(chunk.samples)
            self._ended = chunk.asked.ends
        await channel.end()

    async def _leave(self, channel: Channel) -> None:
        """End the sequence early, for draining."""
        self._farewell = farewell(await channel.leave())

    async def _write(self, channel: Channel) -> None:
        """Send the session's text. What may be its last text waits until it is known to be."""
        held: Final | None = None
        async with aclosing(channel.texts()) as texts:
            async for event in texts:
                if held is not None and held.text:
                    await self._tell(held.text, is_final=True)
                held = None
                if isinstance(event, Partial):
                    await self._partial(event)
                elif self._ended:
                    held = event
                elif event.text:
                    await self._tell(event.text, is_final=True)
        text = "" if held is None else held.text
        if self._farewell is None:
            await self._tell(text, is_final=True, last=True)
        elif text:
            await self._tell(text, is_final=True)

    async def _partial(self, event: Partial) -> None:
        text = (event.committed + event.partial).strip()
        if text and self._options.partials:
            with self._frontend.tracer.span("send", self._record.trace):
                await self._tell(text)

    async def _tell(self, text: str, *, is_final: bool = False, last: bool = False) -> None:
        warnings, self._warnings = self._warnings, ()
        response = heard(self._asked, text, is_final=is_final, last=last, warnings=warnings)
        await self._send(response)
