"""Query of `/v1/listen`: options that affect the text are applied or rejected, others accepted."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from auricle.core.errors import BadRequest
from auricle.frontend.protocols.deepgram.options import ListenOptions, parse_options

pytestmark = pytest.mark.unit
AUDIO = {"encoding": "linear16", "sample_rate": "16000"}


def parsed(**options: object) -> ListenOptions:
    return parse_options(urlencode({**AUDIO, **options}, doseq=True), most_channels=8)


def test_audio_alone_is_enough() -> None:
    assert parsed() == ListenOptions(encoding="pcm_s16le", sample_rate=16_000)


@pytest.mark.parametrize(
    ("query", "encoding", "rate"),
    [
        ("encoding=linear16&sample_rate=44100", "pcm_s16le", 44_100),
        ("encoding=mulaw", "pcm_mulaw", 8_000),
        ("encoding=alaw&sample_rate=16000", "pcm_alaw", 16_000),
    ],
)
def test_encodings_are_those_that_can_be_decoded(query: str, encoding: str, rate: int) -> None:
    options = parse_options(query)
    assert (options.encoding, options.sample_rate) == (encoding, rate)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "opus"}, "encoding 'opus' cannot be used: it must be one of linear16, mulaw"),
        ({"sample_rate": "fast"}, "it must be a whole number from 4000 to 192000"),
        ({"sample_rate": "1" * 3000}, "query string has"),
        ({"channels": "2"}, "channels=2 needs multichannel=true"),
        ({"channels": "9", "multichannel": "true"}, "it must be a whole number from 1 to 8"),
        ({"multichannel": "both"}, "it must be true or false"),
        ({"callback": "http://x"}, "callback is not supported: results are sent on the connection"),
        ({"numerals": True}, "numerals is not supported: the model writes numbers as it learnt"),
        ({"profanity_filter": "true"}, "profanity_filter is not supported"),
        ({"redact": ["pci", "false"]}, "redact is not supported"),
        ({"alternatives": "2"}, "alternatives is not supported: there is one transcript"),
        ({"keywords": "snuffle:-2"}, "words cannot be made less likely"),
        ({"endpointing": "soon"}, "it must be false or milliseconds, at most 10000"),
        ({"utterance_end_ms": "20"}, "it must be a whole number from 100 to 10000"),
        ({"interim_results": "yes"}, "it must be true or false"),
        ({"model": ["a", "b"]}, "model was given 2 times"),
        ({"kyeterm": "Ada"}, "kyeterm is not supported; supported: .*keyterm"),
        ({"keyterm": "a\0b"}, "keyterm and keywords has a null character"),
        ({"language": "x" * 33}, "language has 33 characters, at most 32"),
        ({"model": "x" * 257}, "model has 257 characters, at most 256"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parsed(**options)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sample_rate=16000", "encoding is missing: audio in a container, such as WebM"),
        ("encoding=linear16", "sample_rate is missing; linear16 needs it, in Hz"),
    ],
)
def test_audio_that_is_not_described_is_refused(query: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_options(query)


def test_what_does_not_change_the_text_is_taken_and_said_to_have_no_effect() -> None:
    options = parsed(punctuate="true", smart_format=True, search="true", tag=["a", "b"])
    assert options.warnings == tuple(
        f"{name} has no effect" for name in ("punctuate", "smart_format", "search", "tag")
    )


def test_channels_are_heard_apart_if_that_is_wanted() -> None:
    assert parsed(channels=2, multichannel=True).channels == 2
    assert parsed(channels=1).channels == parsed(multichannel=True).channels == 1


def test_what_is_switched_off_is_not_worth_a_warning() -> None:
    off = {"numerals": False, "profanity_filter": "false", "redact": "false", "alternatives": 1}
    assert parsed(**off, punctuate=False, filler_words="false") == parsed()


def test_terms_are_context_for_the_model() -> None:
    options = parsed(keyterm=["Ada", "Grace Hopper"], keywords=["snuffle", "quokka:2.5", "tapir:1"])
    assert options.context == "Ada, Grace Hopper, snuffle, quokka, tapir"
    assert options.warnings == ("weights of keywords have no effect: all are context alike",)


@pytest.mark.parametrize(
    ("options", "language"),
    [
        ({"language": "en-US"}, "en"),
        ({"language": "de"}, "de"),
        ({"language": "multi"}, None),
        ({"detect_language": "true"}, None),
        ({}, None),
    ],
)
def test_a_language_has_no_region_and_may_be_left_to_the_model(
    options: dict[str, str], language: str | None
) -> None:
    assert parsed(**options).language == language


@pytest.mark.parametrize(
    ("value", "silence_ms", "speech_final", "warnings"),
    [
        (None, None, True, 0),
        ("true", None, True, 0),
        ("false", None, False, 0),
        ("300", 300, True, 0),
        ("25", 100, True, 1),
    ],
)
def test_endpointing_is_a_silence_or_off(
    value: str | None, silence_ms: int | None, speech_final: bool, warnings: int
) -> None:
    options = parsed(**({} if value is None else {"endpointing": value}))
    assert (options.silence, options.speech_final) == (silence_ms, speech_final)
    assert len(options.warnings) == warnings
