"""`ModelStreamInfer`: one stream, with any number of sequences one after the other or at once."""

from __future__ import annotations

import asyncio
from typing import Any

from auricle.errors import (
    AuricleError,
    DeadlineExceeded,
    Overloaded,
    ProtocolError,
    UnsupportedValue,
)
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.live import Record
from auricle.frontend.doors.rpc.incoming import Context, Incoming
from auricle.frontend.doors.rpc.messages import CallMessages
from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.doors.session_log import log_refused
from auricle.frontend.frontend import Frontend
from auricle.frontend.kserve.answers import PACKAGE, failed
from auricle.frontend.kserve.asking import Asked, asked_by, unasked
from auricle.frontend.kserve.recording import RAW_FIELD
from auricle.frontend.kserve.sequence import NAME, Caller, Chunk, Sequence
from auricle.frontend.kserve.tensors import audio_of, pcm_of
from auricle.quoting import quoted
from auricle.tasks import Interrupted, cancelled, first_failure_or, in_thread, outcome_of

_MOST_SEQUENCES = 1_000  # of one stream, those that have failed and not ended included
_LONG_BYTES = 1 << 18  # of audio, from which on it is converted in a thread


class ModelStreamInfer:
    """Serves the streams of one frontend, on its event loop."""

    def __init__(self, frontend: Frontend, access: Access) -> None:
        self._frontend = frontend
        self._access = access

    async def serve(self, incoming: Incoming, context: Context) -> None:
        """Serve one stream until done. Raises AuricleError if it fails or is refused."""
        with self._frontend.live_sessions.settled(Record(NAME, incoming.address)):
            client = self._access.client(incoming.metadata, "live")
        caller = Caller(client, incoming.host, incoming.address)
        try:
            await _Stream(self._frontend, caller, context).run()
        except ClientGone:
            return  # each sequence has said so


class _Stream:
    """One stream: a reader, and a task for each sequence."""

    def __init__(self, frontend: Frontend, caller: Caller, context: Context) -> None:
        self._frontend = frontend
        self._door = frontend.front_door
        self._caller = caller
        self._messages = CallMessages(context, frontend.settings.slow_reader_seconds)
        # Those whose end was not asked for yet.
        self._sequences: dict[int | str, Sequence] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve the stream until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        reading = asyncio.create_task(self._read())
        failure = asyncio.create_task(outcome_of(self._failure))
        try:
            with self._door.interrupting(self._messages.interrupt):
                await first_failure_or(reading, [failure])
        finally:
            self._failure.cancel()  # what fails from now on ends nothing
            await cancelled(list(self._running))
            await self._messages.release()

    async def _read(self) -> None:
        """Read until the client has sent all, and the last sequence has its text."""
        settings = self._frontend.settings
        seconds = settings.start_timeout_seconds
        while True:
            if self._door.leaving and not self._running:
                raise about_to_go()
            try:
                data = await self._messages.receive(seconds, "the next request")
            except Interrupted:
                continue
            except DeadlineExceeded:
                if self._running:  # each has a deadline of its own
                    continue
                raise
            if data is None:
                break
            await self._take(data)
            seconds = settings.idle_timeout_seconds
        for sequence in list(self._sequences.values()):
            await sequence.end()
        while self._running:
            await asyncio.wait(self._running)

    async def _take(self, data: bytes) -> None:
        """Hand one request over to its sequence. What is wrong with it is told as its answer."""
        request = parsed(f"{PACKAGE}.ModelInferRequest", data, bulk=RAW_FIELD)
        asked = unasked(request)
        sequence = None if asked.sequence is None else self._sequences.get(asked.sequence)
        try:
            asked = asked_by(request)
            sequence = self._sequence(asked, sequence)
            await sequence.put(Chunk(asked, await _samples(request, asked)))
        except AuricleError as error:
            if sequence is not None:
                await sequence.put(Chunk(asked, error=error))
            else:
                log_refused(self._caller.address, error)
                await self._messages.send(failed(asked, error))

    def _sequence(self, asked: Asked, running: Sequence | None) -> Sequence:
        """Return the sequence of a request, which may start or end it. Raises BadRequest."""
        key = asked.sequence
        if key is None:
            raise UnsupportedValue(
                "sequence_id is missing: audio comes in sequences, whose first request has "
                "sequence_start",
                "sequence_id",
            )
        if asked.starts:
            if running is not None and not running.over:
                raise ProtocolError(f"the sequence {quoted(key)} has begun already")
            running = self._sequences[key] = self._begun(asked)
        elif running is None:
            raise ProtocolError(
                f"the sequence {quoted(key)} has not begun: its first request has sequence_start"
            )
        if asked.ends:
            del self._sequences[key]
        return running

    def _begun(self, asked: Asked) -> Sequence:
        if len(self._sequences) >= _MOST_SEQUENCES:
            raise Overloaded(
                f"a stream has at most {_MOST_SEQUENCES} sequences that have not ended"
            )
        sequence = Sequence(self._frontend, self._caller, asked, self._messages.send)
        task = asyncio.create_task(sequence.run())
        self._running.add(task)
        task.add_done_callback(self._finished)
        return sequence

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not self._failure.done():
            self._failure.set_exception(error)


async def _samples(request: Any, asked: Asked) -> bytes:
    """Return the audio of a request; one that ends its sequence may have none."""
    if asked.ends and not request.inputs:
        return b""
    datatype, content = audio_of(request)
    if len(content) < _LONG_BYTES:
        return pcm_of(datatype, content)
    return await in_thread(pcm_of, datatype, content)
