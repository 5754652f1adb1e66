"""The streaming WebSocket's messages: accepted ones, and the errors for all others."""

import json

import pytest

from auricle.config.settings import FrontendSettings
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.turn_detection import WAITS, Eagerness
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream import start as parsing
from auricle.protocol import stream

pytestmark = pytest.mark.unit


def start(**fields: object) -> str:
    return json.dumps({"type": "start", "sample_rate": 16_000, **fields})


def test_a_start_with_defaults() -> None:
    parsed = parsing.parse_start(start())
    assert (parsed.encoding, parsed.language, parsed.chunk_ms) == ("pcm_s16le", None, None)


@pytest.mark.parametrize(
    ("text", "said", "param"),
    [
        (None, "send a JSON start first", None),
        ("{nonsense", "first message must be a JSON start", None),
        ('{"type": "end"}', "first message must be a JSON start", "type"),
        ('{"type": "start"}', "sample_rate", "sample_rate"),
        (start(sample_rate="fast"), "sample_rate", "sample_rate"),
        (
            start(sample_rate=1),
            "sample_rate 1 cannot be used: it must be a whole number from 4000 to 192000",
            "sample_rate",
        ),
        (start(sample_rate=10**9), "whole number from 4000 to 192000", "sample_rate"),
        (
            start(encoding="opus"),
            "encoding 'opus' cannot be used: it must be one of pcm_s16le, pcm_mulaw, pcm_alaw",
            "encoding",
        ),
        (
            start(chunk_ms=5),
            "chunk_ms 5 cannot be used: it must be a whole number from 80 to 10000",
            "chunk_ms",
        ),
        (start(sampel_rate=8000), "sampel_rate", "sampel_rate"),
        (start(context="x" * 2001), "at most 2000", "context"),
        (start(languages="de"), "languages", "languages"),
        (
            start(languages=["de", "es", "fr", "it", "nl"]),
            "languages has 5 entries, at most 4 are allowed",
            "languages",
        ),
        (
            start(language="de", languages=["de", "es"]),
            "send either language or languages",
            "languages",
        ),
        (
            start(endpointing={"threshold": 2}),
            "endpointing.threshold 2 cannot be used: it must be a number from 0.05 to 0.95",
            "endpointing.threshold",
        ),
        (
            start(endpointing={"min_silence_ms": 1}),
            "min_silence_ms 1 cannot be used: it must be a whole number from 100 to",
            "endpointing.min_silence_ms",
        ),
        (
            start(endpointing={"pre_roll_ms": -1}),
            "pre_roll_ms -1 cannot be used: it must be a whole number from 0 to 2000",
            "endpointing.pre_roll_ms",
        ),
        (start(endpointing={"silence": 1}), "silence", "endpointing.silence"),
        (
            start(endpointing={"eagerness": "very"}),
            "endpointing.eagerness 'very' cannot be used: it must be one of low, medium, auto",
            "endpointing.eagerness",
        ),
        (
            start(endpointing={"eagerness": "low", "min_silence_ms": 300}),
            "min_silence_ms has no effect with endpointing.eagerness: give one of them",
            "endpointing.min_silence_ms",
        ),
        (
            start(endpointing={"eagerness": "low", "enabled": False}),
            "endpointing.eagerness needs endpointing, which is not enabled",
            "endpointing.eagerness",
        ),
    ],
)
def test_a_wrong_first_message_is_told_what_would_be_right(
    text: str | None, said: str, param: str | None
) -> None:
    with pytest.raises(ProtocolError, match=said) as refused:
        parsing.parse_start(text)
    assert refused.value.param == param


def test_a_session_sets_its_own_endpointing_and_inherits_the_rest() -> None:
    settings = FrontendSettings(speech_threshold=0.6, min_silence_ms=700)
    parsed = parsing.parse_start(start(endpointing={"min_silence_ms": 200}))
    options = parsing.endpointing_options(parsed, settings)
    assert options == EndpointingOptions(0.6, 200, settings.pre_roll_ms)


def test_endpointing_is_switched_off_by_the_session_or_on_against_the_server() -> None:
    off = parsing.parse_start(start(endpointing={"enabled": False}))
    assert parsing.endpointing_options(off, FrontendSettings()) is None
    silent = FrontendSettings(endpointing=False)
    assert parsing.endpointing_options(parsing.parse_start(start()), silent) is None
    on = parsing.parse_start(start(endpointing={"enabled": True}))
    assert parsing.endpointing_options(on, silent) is not None


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_who_is_eager_gets_turns_even_where_endpointing_is_off_by_default(
    eagerness: Eagerness,
) -> None:
    parsed = parsing.parse_start(start(endpointing={"eagerness": eagerness}))
    for settings in (FrontendSettings(), FrontendSettings(endpointing=False)):
        options = parsing.endpointing_options(parsed, settings)
        assert options is not None and options.turns == WAITS[eagerness]


def test_only_end_may_follow_as_text() -> None:
    parsing.parse_end('{"type": "end"}')
    with pytest.raises(ProtocolError, match="start was sent twice"):
        parsing.parse_end(start())
    with pytest.raises(ProtocolError, match="expected binary audio or a JSON end"):
        parsing.parse_end('{"type": "stop"}')


def test_replies_carry_their_type() -> None:
    reply = json.loads(protocol.encode(stream.Error("overloaded", "full")))
    assert reply == {"type": "error", "code": "overloaded", "message": "full"}
