"""Vapi's custom transcribers, on `WS /v1/vapi`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import msgspec

from auricle.checkpoints.languages import spoken_language
from auricle.core.errors import AuricleError, ProtocolError, UnsupportedValue
from auricle.core.limits import query_fields
from auricle.frontend.audio.chunks import Deinterleaver
from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.admission import first_message
from auricle.frontend.transport.live_sessions import LiveSession, Record
from auricle.frontend.transport.options import (
    Context,
    Language,
    Model,
    Others,
    SampleRate,
    read,
    read_query,
)
from auricle.frontend.transport.request_errors import json_fault
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol
from auricle.protocol.sessions import SegmentFinal

CAPABILITIES = ProtocolCapabilities(
    route="WS /v1/vapi",
    page="telephones.md",
    partials="transcriptType",
    language="language",
    keywords="context",
    channels="channels",
)


# The messages between Vapi and a custom transcriber. No I/O. Names and fields are Vapi's.

# The speakers on the first and the second channel.
SPEAKERS = ("customer", "assistant")
_LONGEST = 8_192  # characters of the start message
_NO_START = "not a start message of Vapi"


class VapiStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="start"):
    """The first message; audio follows, with the channels interleaved."""

    sample_rate: SampleRate
    encoding: Literal["linear16"] = "linear16"
    container: Literal["raw"] = "raw"
    channels: Literal[1, 2] = 2


class Options(msgspec.Struct, frozen=True):
    language: Language = ""
    model: Model = ""
    context: Context = ""


def parse_start(text: str | None) -> VapiStart:
    """Parse the first message. Raises ProtocolError, or UnsupportedValue with the field."""
    if text is None:
        raise ProtocolError("the start message must come before audio")
    if len(text) > _LONGEST:
        raise ProtocolError(f"the start message has at most {_LONGEST} characters, not {len(text)}")
    try:
        return read(VapiStart, msgspec.json.decode(text, type=dict[str, Any]))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"{_NO_START}: {json_fault(error)}") from None
    except UnsupportedValue as error:
        if error.param != "type":
            raise
        raise ProtocolError(f"{_NO_START}: {error}") from None


def parse_options(query: str) -> Options:
    """Parse the query of the transcriber's URL. Raises BadRequest with the option."""
    return read_query(Options, query_fields(query), Others())[0]


def response(event: Text, speaker: str) -> str:
    """Return the message with a speaker's text; empty without text.

    Each partial text replaces the one before, until a final one.
    """
    is_final = isinstance(event, SegmentFinal)
    text = (
        event.text if isinstance(event, SegmentFinal) else (event.committed + event.partial).strip()
    )
    if not text:
        return ""
    message = {
        "type": "transcriber-response",
        "transcription": text,
        "channel": speaker,
        "transcriptType": "final" if is_final else "partial",
    }
    return msgspec.json.encode(message).decode()


def error_message(error: AuricleError) -> str:
    message: dict[str, object] = {"type": "error", "error": error.for_client, "code": error.code}
    if error.retry_after_seconds:
        message["retryAfterSeconds"] = error.retry_after_seconds
    return msgspec.json.encode(message).decode()


# `WS /v1/vapi`: one call of Vapi's, with a session for each channel of its audio.

NAME = "vapi"


def vapi_protocol(frontend: Frontend) -> SocketProtocol:
    return SocketProtocol(
        NAME,
        partial(_serve, frontend),
        error_message,
        check=partial(_check, frontend),
    )


def _check(frontend: Frontend, query: str) -> None:
    """Raise BadRequest for a query with which a call is refused at the handshake."""
    options = parse_options(query)
    frontend.check_model(options.model or None)
    frontend.check_language(spoken_language(options.language))


async def _serve(frontend: Frontend, socket: ClientSocket) -> None:
    """Serve one call; Vapi ends it by disconnecting, which raises ClientDisconnected.

    Raises AuricleError if the call fails.
    """
    options = parse_options(socket.query_string)
    seconds = frontend.settings.start_timeout_seconds
    text, _ = await first_message(socket.receive(seconds, "the start message"))
    start = parse_start(text)
    live = frontend.live_sessions
    sessions: list[LiveSession] = [socket]
    async with AsyncExitStack() as further:
        for _ in range(1, start.channels):
            another = live.session(Record(NAME), socket.client, socket.fairness_key)
            session = await further.enter_async_context(another)
            session.belongs_to(socket)
            sessions.append(session)
        audio = ChannelOptions(
            sample_rate=start.sample_rate,
            language=spoken_language(options.language),
            context=options.context,
            group=socket.session,
        )

        async def on_text(speaker: str, event: Text) -> None:
            if message := response(event, speaker):
                await socket.send(message)

        channels = [
            TextChannel(frontend, session, replace(audio, part=speaker), partial(on_text, speaker))
            for session, speaker in zip(sessions, SPEAKERS, strict=False)
        ]
        engine = SessionEngine(frontend, *channels)
        await engine.follow(_read(frontend, socket, engine, channels))


async def _read(
    frontend: Frontend, socket: ClientSocket, engine: SessionEngine, channels: Sequence[TextChannel]
) -> None:
    """Feed the channels until draining ends the sessions."""
    idle = frontend.settings.idle_timeout_seconds
    interleaved = Deinterleaver(len(channels), sample_bytes=2)
    while (
        message := await engine.receive(lambda: socket.receive(idle, "the next audio packet"))
    ) is not None:
        text, data = message
        if text is not None:
            continue  # other messages about the call have no meaning for a transcriber
        frontend.metrics.bytes("websocket", len(data))
        for channel, samples in zip(channels, interleaved.split(data), strict=True):
            await channel.take(samples)
    socket.end_early(engine.total_samples)
