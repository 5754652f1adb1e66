"""Vapi's custom transcribers: messages as Vapi documents them, and calls of two channels."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import pytest
import websockets

from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    Overloaded,
    ProtocolError,
)
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.vapi import (
    Options,
    error_message,
    parse_options,
    parse_start,
    response,
    vapi_protocol,
)
from auricle.frontend.transport.access.keys import ANYONE, new_key
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.protocol.sessions import ResumePoint, SegmentPartial
from auricle_testing.server import ROOT
from tests.fakes.front import Front, last_words
from tests.fakes.place import HeldPlace
from tests.fakes.tcp_port import frontend
from tests.fakes.transcript_bus import KeptBus
from tests.fakes.vapi import start

pytestmark = pytest.mark.unit
LOUD, QUIET = np.full(16_000, 8_000, "<i2"), np.zeros(16_000, "<i2")
WRONG = "wrong"
STATUS = '{"type": "status-update", "status": "in-progress"}'


def both(customer: np.ndarray, assistant: np.ndarray) -> bytes:
    return np.stack([customer, assistant], axis=1).tobytes()


class Vapi(HeldPlace):
    """Vapi's side of one connection; it sends these messages and then leaves."""

    session, trace = "sess_1", ""

    def __init__(self, *messages: str | bytes, stays: bool = False) -> None:
        super().__init__()
        self.client = ClientAccount(ANYONE)
        self.query_string = ""
        self.sent: list[dict[str, Any]] = []
        self.charged = 0.0
        self.went_at: int | None = None
        self.stays = stays
        self._messages = list(messages)

    async def receive(self, seconds: float, what: str) -> tuple[str | None, bytes]:
        for _ in range(50):  # all messages in flight arrive
            await asyncio.sleep(0)
        if not self._messages:
            raise DeadlineExceeded(what) if self.stays else ClientDisconnected
        message = self._messages.pop(0)
        return (message, b"") if isinstance(message, str) else (None, message)

    async def charge(self, seconds: float) -> None:
        self.charged += seconds

    def end_early(self, samples: int) -> None:
        self.went_at = samples

    async def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    @property
    def said(self) -> list[tuple[str, str]]:
        assert {message["type"] for message in self.sent} <= {"transcriber-response"}
        finals = [message for message in self.sent if message["transcriptType"] == "final"]
        return [(message["channel"], message["transcription"]) for message in finals]


async def served(vapi: Vapi, front: Frontend | None = None) -> Vapi:
    async with asyncio.timeout(120):
        await vapi_protocol(front or frontend()).serve(cast(Any, vapi))
    return vapi


# ── messages ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "the start message must come before audio"),
        ("nonsense", "not a start message of Vapi: it is not valid JSON"),
        ('{"type": "stop"}', "not a start message of Vapi"),
        ('{"type": "start"}', "sampleRate is missing"),
        (start(encoding="mulaw"), "encoding 'mulaw' cannot be used: it must be linear16"),
        (start(container="wav"), "container 'wav' cannot be used: it must be raw"),
        (start(channels=3), "channels 3 cannot be used: it must be 1 or 2"),
        (
            start(sampleRate=1),
            "sampleRate 1 cannot be used: it must be a whole number from 4000 to 192000",
        ),
        (" " * 9_000, "at most 8192 characters"),
    ],
)
def test_a_start_that_cannot_be_served_is_told_why(text: str | None, says: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(says)):
        parse_start(text)


def test_the_url_says_what_the_model_is_told() -> None:
    assert parse_options("") == Options()
    asked = parse_options("language=en&model=demo&context=Ada")
    assert asked == Options(language="en", model="demo", context="Ada")
    with pytest.raises(
        BadRequest, match="lang is not supported; supported: context, language, model"
    ):
        parse_options("lang=en")


def test_an_error_says_when_to_come_again() -> None:
    assert json.loads(error_message(Overloaded("full", 5.0))) == {
        "type": "error",
        "error": "full",
        "code": "overloaded",
        "retryAfterSeconds": 5.0,
    }


def test_text_that_may_still_change_is_told_as_such() -> None:
    partial = SegmentPartial(0, "ten", " green", 640, "English", ResumePoint())
    assert json.loads(response(partial, "customer")) == {
        "type": "transcriber-response",
        "transcription": "ten green",
        "channel": "customer",
        "transcriptType": "partial",
    }
    assert response(SegmentPartial(0, "", "", 640, "English", ResumePoint()), "customer") == ""


# ── calls ───────────────────────────────────────────────────────────────────


async def test_each_channel_has_a_speaker_and_a_session() -> None:
    bus = KeptBus()
    said = (both(LOUD, QUIET), both(QUIET, LOUD)), both(QUIET, QUIET)
    vapi = Vapi(start(), *said[0], STATUS, said[1], stays=True)
    with pytest.raises(DeadlineExceeded):
        await served(vapi, frontend(bus))
    assert vapi.said == [("customer", "word"), ("assistant", "word")]
    assert vapi.charged == pytest.approx(3.0)  # the other channel's session was charged separately
    assert [(session, part) for session, part, _ in bus.finals] == [
        ("sess_1", "customer"),
        ("sess_1", "assistant"),
    ]


async def test_packets_may_be_cut_anywhere() -> None:
    data = both(LOUD, QUIET) + both(QUIET, QUIET)
    packets = [data[at : at + 1_001] for at in range(0, len(data), 1_001)]
    vapi = Vapi(start(), *packets, stays=True)
    with pytest.raises(DeadlineExceeded):
        await served(vapi)
    assert vapi.said == [("customer", "word")]


async def test_one_channel_is_the_customers() -> None:
    vapi = Vapi(start(channels=1), LOUD.tobytes(), QUIET.tobytes(), stays=True)
    with pytest.raises(DeadlineExceeded):
        await served(vapi)
    assert vapi.said == [("customer", "word")]


async def test_the_second_channel_counts_as_a_session_too() -> None:
    front = frontend(max_sessions=1)
    with front.admission.slot("10.0.0.1"), pytest.raises(AuricleError, match="all 1 sessions"):
        await served(Vapi(start()), front)


# ── at the door ─────────────────────────────────────────────────────────────


async def test_a_key_is_taken_as_vapi_sends_it() -> None:
    secret, key = new_key("acme")
    front = Front([key])
    async with asyncio.timeout(120), front.serving():
        address = front.url.replace("http", "ws") + "/v1/vapi"
        for headers in ({"x-vapi-secret": secret}, {"Authorization": f"Bearer {secret}"}):
            async with websockets.connect(address, additional_headers=headers) as socket:
                await socket.send("nonsense")
                said, code, _ = await last_words(socket)
                assert json.loads(said)["code"] == ProtocolError.code
                assert code == 1008
        for headers in ({}, {"x-vapi-secret": WRONG}):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(address, additional_headers=headers)
            assert refused.value.response.status_code == 401


async def test_an_option_that_there_is_not_is_refused_at_the_handshake() -> None:
    front = Front()
    async with asyncio.timeout(120), front.serving():
        for query, status in (("lang=en", 400), ("model=nova", 404)):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await front.connect(f"/v1/vapi?{query}")
            assert refused.value.response.status_code == status


def test_the_transcriber_in_the_docs_names_what_is_read() -> None:
    page = (ROOT / "docs/telephones.md").read_text()
    (transcriber,) = map(json.loads, re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    url = urlsplit(transcriber["server"]["url"])
    assert url.path == "/v1/vapi"
    assert parse_options(url.query) == Options("en")
    assert transcriber["server"]["secret"] == "<KEY>"
    assert transcriber["provider"] == "custom-transcriber"
