"""Parsing and serializing Wyoming's events."""

from __future__ import annotations

import pytest

from auricle.core.errors import AuricleError, Overloaded, ProtocolError, TooLarge
from auricle.frontend.protocols import wyoming as events
from auricle.frontend.protocols.wyoming import AudioFormat, Event, EventParser, WyomingTranscript
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial
from tests.fakes.wyoming import sent

pytestmark = pytest.mark.unit
PAYLOAD = b"\0\1" * 40


def parsed(data: bytes, packet: int) -> list[Event]:
    parser, found = EventParser(1_000), []
    for start in range(0, len(data), packet):
        parser.feed(data[start : start + packet])
        while (event := parser.next()) is not None:
            found.append(event)
    assert parser.held == 0
    return found


@pytest.mark.parametrize("packet", [1, 7, 10_000])
@pytest.mark.parametrize("inline", [False, True])
def test_events_are_read_however_they_are_cut(packet: int, inline: bool) -> None:
    audio = {"rate": 16_000, "width": 2, "channels": 1, "timestamp": None}
    data = sent("audio-start", audio, inline=inline) + sent("audio-chunk", audio, PAYLOAD)
    start, chunk = parsed(data + sent("audio-stop", {}, inline=inline), packet)[:2]
    assert start.read_as(AudioFormat) == AudioFormat(16_000, 2, 1)
    assert (chunk.kind, chunk.payload) == ("audio-chunk", PAYLOAD)


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"GET / HTTP/1.1\r\n", ProtocolError, "it is not valid JSON"),
        (b'{"type": "x", "data": "\xff"}\n', ProtocolError, "not an event of Wyoming"),
        (b"{}\n", ProtocolError, "type is missing"),
        (b'{"type": "x", "data_length": 70000}\n', TooLarge, "data_length is 70000"),
        (b'{"type": "x", "payload_length": 1001}\n', TooLarge, "may be at most 1000"),
        (b'{"type": "x", "payload_length": -1}\n', ProtocolError, "payload_length is negative"),
        (b'{"type": "x", "data_length": 2}\n[]', ProtocolError, "not an event of Wyoming"),
        (b"[" * 9_000, TooLarge, "first line has at most 8192 bytes"),
    ],
)
def test_what_is_no_event_is_named(data: bytes, kind: type[AuricleError], says: str) -> None:
    with pytest.raises(kind, match=says):
        parsed(data, 10_000)


def test_a_field_of_the_wrong_kind_is_named() -> None:
    event = Event("audio-start", {"rate": "fast", "width": 2, "channels": 1})
    with pytest.raises(ProtocolError, match="audio-start: rate must be int"):
        event.read_as(AudioFormat)


def test_a_refusal_says_when_to_come_again() -> None:
    (error,) = parsed(events.error(Overloaded("all 4 sessions are in use", 5.0)), 100)
    assert error.data == {
        "text": "all 4 sessions are in use",
        "code": "overloaded",
        "retry_after_seconds": 5.0,
    }


# ── text ────────────────────────────────────────────────────────────────────


def partial(segment: int, committed: str, rest: str) -> SegmentPartial:
    return SegmentPartial(segment, committed, rest, 100, "English", ResumePoint())


def final(segment: int, text: str) -> SegmentFinal:
    return SegmentFinal(segment, text, 0, 100, "English", ResumePoint())


def told(*heard: SegmentPartial | SegmentFinal) -> list[tuple[str, str]]:
    transcript = WyomingTranscript()
    said = b"".join([*map(transcript.on_text, heard), transcript.whole()])
    return [(e.kind, e.data.get("text", "")) for e in parsed(said, 10_000)]


def test_chunks_say_what_will_not_change_and_join_to_the_transcript() -> None:
    heard = (
        *(partial(0, "", "ten"), partial(0, "ten", " green"), partial(0, "ten", " grey")),
        *(final(0, "ten green apples"), partial(1, "and", ""), final(1, "and two")),
    )
    said = told(*heard)
    assert [kind for kind, _ in said] == [
        "transcript-start",
        *["transcript-chunk"] * 4,
        *("transcript", "transcript-stop"),
    ]
    assert [text for _, text in said[1:5]] == ["ten", " green apples", " and", " two"]
    assert said[5] == ("transcript", "ten green apples and two")


def test_silence_has_an_empty_transcript() -> None:
    assert told() == [("transcript-start", ""), ("transcript", ""), ("transcript-stop", "")]
