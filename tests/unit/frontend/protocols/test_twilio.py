"""Twilio's media streams: their messages as Twilio publishes them, and streams of calls."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import xml.etree.ElementTree as ET
from typing import Any, cast

import pytest
import websockets
from prometheus_client import CollectorRegistry

from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    Forbidden,
    ProtocolError,
    Unauthorized,
    UnsupportedValue,
)
from auricle.frontend.exporters.nats import NatsBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.twilio import (
    Call,
    Media,
    Stop,
    TwilioStart,
    parse_message,
    twilio_protocol,
)
from auricle.frontend.session.channels import check_text_is_wanted
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing, new_key
from auricle.frontend.transport.connections import ConnectionLimits
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle_testing.server import ROOT
from tests.fakes.front import Front, last_words
from tests.fakes.tcp_port import frontend
from tests.fakes.transcript_bus import KeptBus
from tests.fakes.twilio import CALL, CONNECTED, STREAM, media, start
from tests.fakes.virtual_time import run
from tests.waiting import until

pytestmark = pytest.mark.unit
WRONG = "wrong"
LOUD, QUIET = b"\x80" * 8_000, b"\xff" * 8_000  # a second each, µ-law
MARK = json.dumps({"event": "mark", "sequenceNumber": "4", "streamSid": STREAM, "mark": {}})
DTMF = json.dumps({"event": "dtmf", "streamSid": STREAM, "dtmf": {"track": "inbound_track"}})
STOP = json.dumps(
    {
        "event": "stop",
        "sequenceNumber": "5",
        "stop": {"accountSid": "AC3", "callSid": CALL},
        "streamSid": STREAM,
    }
)


def test_the_key_of_a_call_is_not_in_what_is_said_of_it() -> None:
    begins = parse_message(start(parameters={"api_key": WRONG}))
    assert isinstance(begins, TwilioStart)
    call = Call.begun_by(begins.start)
    assert call.secret == WRONG
    assert WRONG not in repr(call)


class Stream:
    """Twilio's side of one connection; it hangs up after sending these messages."""

    host = "10.0.0.1"
    address = "10.0.0.1:1"

    def __init__(self, *messages: str) -> None:
        self.headers: dict[str, str] = {}
        self.went = False
        self._messages = list(messages)

    async def receive(self, seconds: float, what: str) -> str:
        for _ in range(20):  # all messages in flight arrive
            await asyncio.sleep(0)
        if self._messages:
            return self._messages.pop(0)
        raise ClientDisconnected

    def goes(self) -> None:
        self.went = True


async def heard(
    *messages: str, keys: list[ApiKey] | None = None, **settings: Any
) -> tuple[KeptBus, Stream]:
    """The text on the bus after the end of a stream."""
    bus = KeptBus()
    stream = await served(frontend(bus, **settings), *messages, keys=keys)
    return bus, stream


async def served(front: Frontend, *messages: str, keys: list[ApiKey] | None = None) -> Stream:
    stream = Stream(*messages)
    async with asyncio.timeout(120):
        await twilio_protocol(front, Access(KeyRing(keys))).serve(cast(Any, stream))
    return stream


# ── messages ────────────────────────────────────────────────────────────────


def test_messages_are_read_as_twilio_sends_them() -> None:
    begun = parse_message(start("inbound", "outbound", parameters={"language": "en"}))
    assert isinstance(begun, TwilioStart)
    call = Call.begun_by(begun.start)
    assert call == Call(CALL, STREAM, ("inbound", "outbound"), "en")
    audio = parse_message(media(b"\x80\xff", "outbound"))
    assert isinstance(audio, Media)
    assert (audio.media.payload, audio.media.track) == (b"\x80\xff", "outbound")
    assert isinstance(parse_message(STOP), Stop)
    assert parse_message(MARK) is parse_message(DTMF) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "it is not valid JSON"),
        ("{}", "event is missing"),
        ('{"event": "media", "media": {"payload": "?"}}', "payload is not base64"),
        ('{"event": "start", "start": {}}', "streamSid is missing"),
        ("[" * 60_000, "media streams"),
        (" " * 70_000, "at most 65536 characters"),
    ],
)
def test_what_is_no_message_is_named(text: str, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        parse_message(text)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"callSid": "a.b"}, "callSid 'a.b' cannot be used"),
        ({"streamSid": ""}, "streamSid '' cannot be used"),
        ({"tracks": ["both"]}, "tracks must be inbound, outbound or both"),
        ({"tracks": ["inbound", "inbound"]}, "tracks must be"),
        ({"mediaFormat": {"encoding": "audio/x-l16", "sampleRate": 8_000}}, "mediaFormat must be"),
        ({"mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 16_000}}, "at 8000 Hz"),
        ({"customParameters": {"language": "x" * 33}}, "language has 33 characters"),
        ({"customParameters": {"context": "x" * 2_001}}, "context has 2001 characters"),
    ],
)
def test_a_stream_that_cannot_be_served_is_told_why(fields: dict[str, Any], says: str) -> None:
    begun = parse_message(start(**fields))
    assert isinstance(begun, TwilioStart)
    with pytest.raises(UnsupportedValue, match=re.escape(says)):
        Call.begun_by(begun.start)


# ── streams ─────────────────────────────────────────────────────────────────


async def test_the_text_of_a_call_is_on_the_bus_under_its_id() -> None:
    bus, _ = await heard(CONNECTED, start(), DTMF, media(LOUD), MARK, media(QUIET), STOP)
    assert bus.finals == [(CALL, f"inbound-{STREAM}", "word")]


async def test_the_text_of_two_calls_with_the_same_ids_differs_in_subject_and_id() -> None:
    """A client can give a call any id, also one of another tenant's call. JetStream would discard
    the second message of two with the same id."""
    bus = NatsBus(
        "nats://nowhere", "ns", max_queued=9, keep_hours=1.0, registry=CollectorRegistry()
    )
    (acme, first), (globex, second) = new_key("acme"), new_key("globex")
    front, access = frontend(bus), Access(KeyRing([first, second]))
    for secret in (acme, globex, acme):
        messages = start(parameters={"api_key": secret}), media(LOUD), media(QUIET), STOP
        await twilio_protocol(front, access).serve(cast(Any, Stream(*messages)))
    finals = []
    while (message := bus._queue.first()) is not None:
        if b'"final"' in message.data:
            finals.append(message)
        bus._queue.done()
    assert len({message.identity for message in finals}) == 3
    assert len({message.subject for message in finals}) == 3
    pattern = rf"ns\.transcript\.(acme|globex)\.{CALL}\.sess_\w+"
    tenants = [re.fullmatch(pattern, message.subject) for message in finals]
    assert [tenant and tenant[1] for tenant in tenants] == ["acme", "globex", "acme"]


async def test_both_sides_of_a_call_are_sessions_of_their_own() -> None:
    said = (media(LOUD), media(QUIET, "outbound"), media(QUIET), media(LOUD, "outbound"))
    bus, _ = await heard(CONNECTED, start("inbound", "outbound"), *said, STOP)
    assert sorted(bus.finals) == [
        (CALL, f"inbound-{STREAM}", "word"),
        (CALL, f"outbound-{STREAM}", "word"),
    ]


async def test_a_caller_who_hangs_up_has_said_what_was_heard() -> None:
    bus, _ = await heard(CONNECTED, start(), media(LOUD))
    assert [text for *_, text in bus.finals] == ["word"]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([CONNECTED, media(LOUD)], "the start message must come before"),
        ([CONNECTED] * 9, "the start message must come before"),
        ([start(), media(LOUD, "outbound")], "the track 'outbound', which start did not name"),
        ([start(), start()], "one start message"),
    ],
)
async def test_messages_out_of_order_end_the_stream(messages: list[str], says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        await heard(*messages)


class Hesitant(Stream):
    """Sends each message just before the deadline of one."""

    async def receive(self, seconds: float, what: str) -> str:
        await asyncio.sleep(0.9 * seconds)
        return await super().receive(seconds, what)


def test_the_start_has_one_deadline_however_many_messages_precede_it() -> None:
    async def begins() -> None:
        front = frontend(KeptBus(), start_timeout_seconds=10.0)
        stream = cast(Any, Hesitant(CONNECTED, CONNECTED, start(), STOP))
        await twilio_protocol(front, Access(KeyRing(None))).serve(stream)

    with pytest.raises(DeadlineExceeded, match="the start message took longer than 10 s"):
        run(begins())


# ── keys ────────────────────────────────────────────────────────────────────


async def test_a_key_comes_as_a_parameter_or_in_a_header() -> None:
    secret, key = new_key("acme")
    messages = (CONNECTED, start(parameters={"api_key": secret}), media(LOUD), STOP)
    bus, _ = await heard(*messages, keys=[key])
    assert {message.tenant for message in bus.messages} == {"acme"}
    with pytest.raises(Unauthorized, match='<Parameter name="api_key"> of <Stream>'):
        await heard(CONNECTED, start(), keys=[key])
    with pytest.raises(Unauthorized, match="not known here"):
        await heard(CONNECTED, start(parameters={"api_key": WRONG}), keys=[key])
    other, for_recordings = new_key("files", scopes=["recordings"])
    with pytest.raises(Forbidden, match="not for live"):
        await heard(CONNECTED, start(parameters={"api_key": other}), keys=[for_recordings])
    stream = Stream(CONNECTED, start(), STOP)
    stream.headers = {"authorization": f"Bearer {secret}"}
    await twilio_protocol(frontend(KeptBus()), Access(KeyRing([key]))).serve(cast(Any, stream))


@pytest.mark.parametrize("known", [True, False])
async def test_a_key_is_nowhere_in_the_log(known: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret, key = new_key("acme")
    front = Front([key] if known else [], log_transcripts=True)
    front.processors.failure = lambda: RuntimeError("out of order")
    sent = start(parameters={"api_key": secret})
    async with asyncio.timeout(120), front.serving():
        logging.getLogger("websockets.client").setLevel(logging.WARNING)
        async with front.connect("/v1/twilio") as socket:
            await socket.send(CONNECTED)
            await socket.send(sent)
            said, code, reason = await last_words(socket)
    assert code == (1011 if known else 1008)
    assert not said  # Twilio does not read any
    assert secret not in reason + caplog.text
    assert caplog.text


async def test_each_side_counts_as_a_session() -> None:
    front = frontend(KeptBus(), max_sessions=1)
    await served(front, CONNECTED, start(), STOP)
    with pytest.raises(AuricleError, match="all 1 sessions are in use"):
        await served(front, CONNECTED, start("inbound", "outbound"))
    assert front.admission.open == 0


async def test_each_side_counts_among_the_sessions_of_its_key() -> None:
    secret, key = new_key("acme")
    front = frontend(KeptBus(), max_connections_per_key=1)
    begun = start("inbound", "outbound", parameters={"api_key": secret})
    with pytest.raises(AuricleError, match="you have 1 sessions and recordings open"):
        await served(front, CONNECTED, begun, keys=[key])


# ── at the door ─────────────────────────────────────────────────────────────


async def test_a_full_server_says_when_to_come_again_as_it_closes() -> None:
    front = Front(log_transcripts=True, max_sessions=1)
    async with asyncio.timeout(120), front.serving(), front.connect("/v1/twilio") as first:
        await first.send(start())
        await front.processors.opened.acquire()
        async with front.connect("/v1/twilio") as socket:
            await socket.send(start())
            _, code, reason = await last_words(socket)
    assert (code, reason) == (1013, "all 1 sessions are in use; come again in 5 s")


async def test_messages_before_the_start_hold_a_bounded_number_of_bytes() -> None:
    limits = ConnectionLimits(unadmitted_bytes=4 << 20)
    front = Front(log_transcripts=True, connection_limits=limits)
    held = front.connections.held

    async def begins() -> websockets.ClientConnection:
        socket = await front.connect("/v1/twilio", compression=None)
        head = b"\x81\xff" + (1_000_000).to_bytes(8, "big") + bytes(4)  # masked by zeros
        socket.transport.write(head + bytes(200_000))
        return socket

    async with asyncio.timeout(120), front.serving():
        sockets = []
        for number in (1, 2):
            sockets.append(await begins())
            await until(lambda number=number: held.total >= number * 200_000)
        with pytest.raises(websockets.ConnectionClosedError):
            await (await begins()).recv()
        for socket in sockets:
            socket.transport.abort()
        await until(lambda: held.total == 0)


async def test_a_call_whose_text_nobody_would_get_is_refused_at_the_handshake() -> None:
    front = Front()
    async with asyncio.timeout(120), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect("/v1/twilio")
    assert refused.value.response.status_code == 400
    assert b"set Frontend.nats_server" in (refused.value.response.body or b"")
    with pytest.raises(BadRequest, match="transcript bus"):
        check_text_is_wanted(frontend())


async def test_the_twiml_in_the_docs_names_what_is_read() -> None:
    page = (ROOT / "docs/telephones.md").read_text()
    twiml = ET.fromstring(re.findall(r"```xml\n(.*?)```", page, re.DOTALL)[0])
    (stream,) = twiml.iter("Stream")
    assert stream.attrib["url"].endswith("/v1/twilio")
    secret, key = new_key("acme")
    values = {"api_key": secret, "language": "en"}
    parameters = {p.attrib["name"]: values[p.attrib["name"]] for p in stream.iter("Parameter")}
    tracks = {"both_tracks": ("inbound", "outbound")}[stream.attrib["track"]]
    bus, _ = await heard(start(*tracks, parameters=parameters), media(LOUD), STOP, keys=[key])
    assert [text for *_, text in bus.finals] == ["word"]
