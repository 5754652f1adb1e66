"""The methods of `inference.GRPCInferenceService`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from auricle import __version__
from auricle.audio.wav import wav_header
from auricle.core.aio import (
    Interrupted,
    ReusableTimeout,
    cancelled,
    first_failure_or,
    in_thread,
    outcome_of,
    run_until,
    with_timeout,
)
from auricle.core.errors import (
    AuricleError,
    DeadlineExceeded,
    Forbidden,
    Overloaded,
    ProtocolError,
    Unauthorized,
    UnsupportedValue,
)
from auricle.core.sanitize import quoted
from auricle.frontend.audio.stalls import Reading
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text
from auricle.frontend.protocols.kserve.messages import (
    AUDIO,
    OUTPUTS,
    PACKAGE,
    VERSION,
    KserveRequest,
    audio_of,
    failure_response,
    parse_request,
    pcm_of,
    recording_response,
    text_response,
    unchecked_request,
)
from auricle.frontend.recordings.calls import Received, RecordingCalls, stored
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.admission import Readiness, farewell, shutting_down
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.grpc.calls import CallMessages
from auricle.frontend.transport.grpc.incoming import (
    Arriving,
    Context,
    Incoming,
    Method,
    Methods,
    only_message,
)
from auricle.frontend.transport.grpc.schema import message, parsed
from auricle.frontend.transport.live_sessions import LiveSession, Record
from auricle.frontend.transport.session_log import log_refused
from auricle.protocol.sessions import SegmentPartial

# One sequence of requests: a live session, between the stream it is part of and processors.

NAME = "kserve"
_RECONNECT_SECONDS = 1.0


@dataclass(frozen=True)
class SequenceChunk:
    """One request: its audio as 16-bit samples, or its error."""

    wanted: KserveRequest
    samples: bytes = b""
    error: AuricleError | None = None


@dataclass(frozen=True)
class SequenceOwner:
    """The client of a stream; `host` identifies one without a key."""

    client: ClientAccount
    host: str
    address: str
    call: Arriving


class Sequence:
    """`run` serves it, in a task of its own, while the stream's reader calls `put`."""

    def __init__(
        self,
        frontend: Frontend,
        caller: SequenceOwner,
        first: KserveRequest,
        send: Callable[[bytes], Awaitable[None]],
        reading: Reading,
    ) -> None:
        """`first` is the request that starts it; `send` sends a response; `reading` is the
        stream's."""
        self._frontend = frontend
        self._caller = caller
        self._options = first.options
        self._last_request = first  # the last request that was processed
        self._warnings = first.warnings
        self._send = send
        self._reading = reading
        self._record = Record(NAME, caller.address)
        # A request is processed before the next one is read: the client gets backpressure.
        self._chunks: asyncio.Queue[SequenceChunk] = asyncio.Queue(maxsize=1)
        self._timeout = ReusableTimeout()
        self._over = asyncio.Event()
        self._ended = False  # all of its audio was processed
        self._failed = False  # its client sent something wrong
        self._farewell: str | None = None  # the reason of an early end without an error
        self._held = ""  # a final text that may be the last

    async def put(self, chunk: SequenceChunk) -> None:
        """Queue a request; waits while the queue is full. A failed sequence drops requests."""
        if self._failed:
            return
        if self._chunks.full() or self._over.is_set():
            await run_until(self._over, self._chunks.put(chunk))
        else:
            self._chunks.put_nowait(chunk)

    @property
    def over(self) -> bool:
        return self._over.is_set()

    async def end(self) -> None:
        """End a sequence whose client has ended the stream without it."""
        await self.put(SequenceChunk(replace(self._last_request, ends=True)))

    async def run(self) -> None:
        """Serve the sequence until done; its own errors are sent to the client.

        Raises errors that end the whole stream: the key was withdrawn, or the client has left.
        """
        live, caller = self._frontend.live_sessions, self._caller
        try:
            with live.recorded(self._record):
                warnings = self._frontend.check_model(self._last_request.model)
                self._warnings = (*warnings, *self._warnings)
                self._frontend.check_language(self._options.language)
                async with live.session(self._record, caller.client, caller.host) as session:
                    with caller.call.admitted():
                        await self._serve(session)
            if self._farewell is not None:
                raise Overloaded(self._farewell, _RECONNECT_SECONDS)
        except (Unauthorized, Forbidden):
            raise
        except AuricleError as error:
            await self._send(failure_response(self._last_request, error))
        finally:
            self._over.set()
            self._timeout.close()

    async def _serve(self, session: LiveSession) -> None:
        options = self._options
        audio = ChannelOptions(
            sample_rate=options.sample_rate,
            language=options.language,
            context=options.context,
            silence=options.silence_ms,
            partials=options.partials,
        )
        channel = TextChannel(self._frontend, session, audio, self._on_text)
        engine = SessionEngine(self._frontend, channel, reading=self._reading)
        with self._frontend.admission.interrupting(self._timeout.interrupt):
            await engine.run(self._read(engine, channel), last=lambda: self._last(engine))

    async def _read(self, engine: SessionEngine, channel: TextChannel) -> None:
        idle = self._frontend.settings.idle_timeout_seconds
        while not self._ended:
            chunk = await engine.receive(
                lambda: self._timeout.wait(
                    idle, self._chunks.get(), "the next request of the sequence"
                )
            )
            if chunk is None:
                self._farewell = farewell(await engine.leave())
                return
            self._last_request = chunk.wanted
            if chunk.error is not None:
                self._fails()
                raise chunk.error
            self._frontend.metrics.bytes("grpc", len(chunk.samples))
            await channel.take(chunk.samples)
            self._ended = chunk.wanted.ends
        await engine.end()

    def _fails(self) -> None:
        """Its text so far is still sent; meanwhile others of the stream must not wait for it."""
        self._failed = True
        with suppress(asyncio.QueueEmpty):
            self._chunks.get_nowait()

    async def _on_text(self, event: Text) -> None:
        """Send text. A final waits if it may be the last."""
        if self._held:
            await self._send_text(self._held, is_final=True)
        self._held = ""
        if isinstance(event, SegmentPartial):
            await self._partial(event)
        elif self._ended:
            self._held = event.text
        elif event.text:
            await self._send_text(event.text, is_final=True)

    async def _last(self, engine: SessionEngine) -> None:
        if self._farewell is None and engine.failure is None:
            await self._send_text(self._held, is_final=True, last=True)
        elif self._held:
            await self._send_text(self._held, is_final=True)

    async def _partial(self, event: SegmentPartial) -> None:
        text = (event.committed + event.partial).strip()
        if text and self._options.partials:
            with self._frontend.tracer.span("send", self._record.trace):
                await self._send_text(text)

    async def _send_text(self, text: str, *, is_final: bool = False, last: bool = False) -> None:
        warnings, self._warnings = self._warnings, ()
        response = text_response(
            self._last_request, text, is_final=is_final, last=last, warnings=warnings
        )
        await self._send(response)


RAW_FIELD = 7  # raw_input_contents


def received(data: bytes) -> Received:
    """Parse a ModelInferRequest and write its audio to disk; call this in a worker thread.

    Samples get a WAV header, so that they can be decoded as a file. Raises BadRequest and
    StorageFull.
    """
    request = parsed(f"{PACKAGE}.ModelInferRequest", data, bulk=RAW_FIELD)
    wanted = parse_request(request)
    if wanted.sequence is not None:
        raise UnsupportedValue(
            "sequence_id is for ModelStreamInfer; ModelInfer takes a whole recording", "sequence_id"
        )
    datatype, content = audio_of(request)
    options = wanted.options
    if datatype == "BYTES":
        file = stored(content)
    else:
        samples = pcm_of(datatype, content)
        file = stored(wav_header("pcm_s16le", options.sample_rate, len(samples)), samples)
    return Received(
        file,
        len(content),
        partial(recording_response, wanted),
        wanted.model,
        options.language,
        options.context,
        options.silence_ms,
        wanted.warnings,
    )


# `ModelStreamInfer`: one stream, with any number of sequences one after the other or at once.

_MOST_SEQUENCES = 1_000  # of one stream, including failed ones whose end was not received
_LONG_BYTES = 1 << 18  # longer audio is converted in a thread
_END_SECONDS = 5.0


class _Stream:
    """One stream: a reader, and a task for each sequence."""

    def __init__(
        self, frontend: Frontend, caller: SequenceOwner, context: Context, record: Record
    ) -> None:
        self._frontend = frontend
        self._record = record
        self._admission = frontend.admission
        self._caller = caller
        self._messages = CallMessages(context, frontend.settings.slow_reader_seconds)
        self._reading = Reading()
        # Sequences whose end was not received yet.
        self._sequences: dict[int | str, Sequence] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve the stream until done. Raises AuricleError if it fails, ClientDisconnected if the
        client leaves."""
        reading = asyncio.create_task(self._read())
        failure = asyncio.create_task(outcome_of(self._failure))
        client = self._caller.client
        try:
            with self._admission.interrupting(self._messages.interrupt):
                async with client.connected("live"):  # a stream need not have a sequence
                    await first_failure_or(reading, [failure])
        except (Unauthorized, Forbidden):
            if self._running:  # they end for the same reason, which their records name
                await asyncio.wait(self._running, timeout=_END_SECONDS)
            raise
        finally:
            self._failure.cancel()  # later failures have no effect
            await cancelled(list(self._running))
            await self._messages.release()

    async def _read(self) -> None:
        """Read until the client has ended the stream, and the last sequence has its text."""
        settings = self._frontend.settings
        seconds = settings.start_timeout_seconds
        while True:
            if self._admission.draining and not self._running:
                raise shutting_down()
            try:
                with self._reading.waiting():
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
        """Queue one request at its sequence. An invalid request is answered with its error."""
        request = parsed(f"{PACKAGE}.ModelInferRequest", data, bulk=RAW_FIELD)
        wanted = unchecked_request(request)
        sequence = None if wanted.sequence is None else self._sequences.get(wanted.sequence)
        try:
            wanted = parse_request(request)
            sequence = self._sequence(wanted, sequence)
            await sequence.put(SequenceChunk(wanted, await _samples(request, wanted)))
        except AuricleError as error:
            if sequence is not None:
                await sequence.put(SequenceChunk(wanted, error=error))
            else:
                log_refused(self._caller.address, error)
                await self._messages.send(failure_response(wanted, error))

    def _sequence(self, wanted: KserveRequest, running: Sequence | None) -> Sequence:
        """Return the sequence of a request, which may start or end it. Raises BadRequest."""
        key = wanted.sequence
        if key is None:
            raise UnsupportedValue(
                "sequence_id is missing: audio comes in sequences, whose first request has "
                "sequence_start",
                "sequence_id",
            )
        if wanted.starts:
            if running is not None and not running.over:
                raise ProtocolError(f"the sequence {quoted(key)} has begun already")
            running = self._sequences[key] = self._begun(wanted)
        elif running is None:
            raise ProtocolError(
                f"the sequence {quoted(key)} has not begun: its first request has sequence_start"
            )
        if wanted.ends:
            del self._sequences[key]
        return running

    def _begun(self, wanted: KserveRequest) -> Sequence:
        if len(self._sequences) >= _MOST_SEQUENCES:
            raise Overloaded(
                f"a stream has at most {_MOST_SEQUENCES} sequences that have not ended"
            )
        self._record.logged = True  # by its sequences, from now on
        send = self._messages.send
        sequence = Sequence(self._frontend, self._caller, wanted, send, self._reading)
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


async def _samples(request: Any, wanted: KserveRequest) -> bytes:
    """Return the audio of a request; one that ends its sequence may have none."""
    if wanted.ends and not request.inputs:
        return b""
    datatype, content = audio_of(request)
    if len(content) < _LONG_BYTES:
        return pcm_of(datatype, content)
    return await in_thread(pcm_of, datatype, content)


SERVICE = f"{PACKAGE}.GRPCInferenceService"
_MESSAGE_SECONDS = 10.0


def kserve_methods(
    frontend: Frontend,
    access: Access,
    recordings: RecordingCalls,
    readiness: Callable[[], Awaitable[Readiness]],
) -> Methods:
    about = _About(frontend, access, readiness)

    async def stream(incoming: Incoming, context: Context) -> None:
        try:
            with frontend.live_sessions.connection(NAME, incoming.address) as record:
                client = access.client(incoming.metadata, "live")
                incoming.call.known(client.fairness_key(incoming.host))
                caller = SequenceOwner(client, incoming.host, incoming.address, incoming.call)
                await _Stream(frontend, caller, context, record).run()
        except ClientDisconnected:
            return  # each sequence has settled its own

    async def infer(incoming: Incoming, context: Context) -> bytes:
        return await recordings.serve(incoming, context, "kserve", received)

    return {
        SERVICE: {
            "ServerLive": Method(about.live, open=True),
            "ServerReady": Method(about.ready, open=True),
            "ModelReady": Method(about.model_ready),
            "ServerMetadata": Method(about.server),
            "ModelMetadata": Method(about.model),
            "ModelInfer": Method(infer),
            "ModelStreamInfer": Method(stream, streams=True),
        }
    }


class _About:
    """Describes the server. Health needs no key, as with gRPC's health checking."""

    def __init__(
        self,
        frontend: Frontend,
        access: Access,
        readiness: Callable[[], Awaitable[Readiness]],
    ) -> None:
        self._frontend = frontend
        self._access = access
        self._readiness = readiness

    async def live(self, _incoming: Incoming, context: Context) -> bytes:
        await _parse_message(context, "ServerLiveRequest")
        return _answer("ServerLiveResponse", live=True)

    async def ready(self, _incoming: Incoming, context: Context) -> bytes:
        await _parse_message(context, "ServerReadyRequest")
        return _answer("ServerReadyResponse", ready=(await self._readiness()).ready)

    async def model_ready(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        wanted = await _parse_message(context, "ModelReadyRequest")
        known = wanted.name in self._frontend.models and wanted.version in ("", VERSION)
        return _answer("ModelReadyResponse", ready=known and (await self._readiness()).ready)

    async def server(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        await _parse_message(context, "ServerMetadataRequest")
        return _answer(
            "ServerMetadataResponse", name="auricle", version=__version__, extensions=["sequence"]
        )

    async def model(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        wanted = await _parse_message(context, "ModelMetadataRequest")
        self._frontend.check_model(wanted.name)
        if wanted.version not in ("", VERSION):
            raise UnsupportedValue(
                f"version {quoted(wanted.version)} does not exist; there is '{VERSION}'", "version"
            )
        outputs = [{"name": n, "datatype": kind, "shape": [1]} for n, kind in OUTPUTS.items()]
        return _answer(
            "ModelMetadataResponse",
            name=wanted.name,
            versions=[VERSION],
            platform="auricle",
            inputs=[{"name": AUDIO, "datatype": "FP32", "shape": [-1]}],
            outputs=outputs,
        )


async def _parse_message(context: Context, kind: str) -> Any:
    data = await with_timeout(_MESSAGE_SECONDS, only_message(context), "the call's message")
    return parsed(f"{PACKAGE}.{kind}", data)


def _answer(kind: str, **fields: Any) -> bytes:
    data: bytes = message(f"{PACKAGE}.{kind}")(**fields).SerializeToString()
    return data
