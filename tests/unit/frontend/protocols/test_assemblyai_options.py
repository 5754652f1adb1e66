"""Options of `/v3/ws`: options that affect the text are applied or rejected, others accepted."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from auricle.core.errors import BadRequest
from auricle.frontend.frontend import DEFAULT_NAMES
from auricle.frontend.protocols.assemblyai.options import (
    StreamingOptions,
    TurnSettings,
    parse_options,
)

pytestmark = pytest.mark.unit
# The defaults of livekit-plugins-assemblyai 1.8.9 and pipecat-ai 1.14.0 (November 2026).
LIVEKIT = {
    "sample_rate": "16000",
    "encoding": "pcm_s16le",
    "speech_model": "universal-streaming-english",
    "language_detection": "false",
}
PIPECAT = {
    "sample_rate": "16000",
    "encoding": "pcm_s16le",
    "min_turn_silence": "100",
    "max_turn_silence": "100",
    "speech_model": "universal-3-6-pro",
}


def parsed(**options: object) -> StreamingOptions:
    return parse_options(urlencode({"sample_rate": "16000", **options}), 500)


def test_options_are_taken() -> None:
    options = parsed(
        encoding="pcm_mulaw",
        language_code="en-US",
        language_detection="True",
        prompt="A lecture.",
        keyterms_prompt=json.dumps(["Ada", "Babbage"]),
        inactivity_timeout="30",
    )
    assert (options.encoding, options.sample_rate, options.language) == ("pcm_mulaw", 16_000, "en")
    assert options.context == "A lecture. Ada, Babbage"
    assert (options.tells_language, options.idle_seconds, options.partials) == (True, 30, True)
    assert options.warnings == ()


@pytest.mark.parametrize("given", [LIVEKIT, PIPECAT])
def test_what_frameworks_send_is_taken(given: dict[str, str]) -> None:
    options = parse_options(urlencode(given), 500)
    assert options.warnings == ()
    assert options.model in DEFAULT_NAMES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "opus"}, "encoding 'opus' cannot be used: it must be pcm_mulaw or pcm_s16le"),
        (
            {"sample_rate": "100"},
            "sample_rate '100' cannot be used: it must be a whole number from 4000",
        ),
        ({"end_of_turn_confidence_threshold": "2"}, "it must be a number from 0 to 1"),
        ({"end_of_turn_confidence_threshold": "nan"}, "'nan' cannot be used: it must be a number"),
        ({"max_turn_silence": "10001"}, "max_turn_silence '10001' .* from 0 to 10000"),
        ({"min_turn_silence": "-1"}, "min_turn_silence '-1' .* from 0 to 10000"),
        ({"min_turn_silence": "9", "max_turn_silence": "8"}, r"min_turn_silence \(9\) is above"),
        ({"format_turns": "perhaps"}, "format_turns 'perhaps' .* must be true or false"),
        ({"inactivity_timeout": "1"}, "inactivity_timeout '1' .* from 5 to 3600"),
        ({"keyterms_prompt": "Ada"}, "keyterms_prompt 'Ada' cannot be used: it must be a JSON"),
        ({"keyterms_prompt": "[1]"}, "keyterms_prompt 1 cannot be used: it must be text"),
        ({"keyterms_prompt": "[" * 600}, "it must be a JSON list"),
        ({"language_code": "x" * 33}, "language_code has 33 characters, at most 32"),
        ({"filter_profanity": "true"}, "filter_profanity is not supported: the model transcribes"),
        ({"redact_pii": "true"}, "redact_pii is not supported: the model transcribes verbatim"),
        ({"webhook_url": "https://x"}, "results are sent on the connection"),
        ({"channels": "2"}, "channels is not supported; supported: encoding, .*sample_rate"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parsed(**options)


@pytest.mark.parametrize(
    ("query", "said"),
    [("", "sample_rate is missing"), ("sample_rate=1&sample_rate=2", "was given 2 times")],
)
def test_the_sample_rate_is_given_once(query: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_options(query, 500)


def test_what_has_no_effect_is_named() -> None:
    options = parsed(
        vad_threshold="0.4",
        domain="medical-v1",
        speaker_labels="false",
        filter_profanity="False",
        format_turns="false",
        max_turn_silence="50",
        language_codes=json.dumps(["en", "es", "de", "fr", "it"]),
    )
    assert [warning.split(" ")[0] for warning in options.warnings] == [
        *("max_turn_silence=50", "format_turns=false", "language_codes"),
        *("vad_threshold", "domain"),
    ]
    assert (options.language, options.languages) == (None, ())


@pytest.mark.parametrize(
    ("given", "language", "languages"),
    [
        ({"language_code": "en-US"}, "en", ()),
        ({"language_codes": ["en-US", "en"]}, "en", ()),
        ({"language_codes": ["en-US", "es"]}, None, ("en", "es")),
        ({"language_codes": ["en"], "language_code": "es"}, None, ("en", "es")),
        ({"language_code": "multi"}, None, ()),
        ({"language_codes": ["en", "multi"]}, None, ()),
    ],
)
def test_one_language_is_forced_and_of_several_each_turn_has_one(
    given: dict[str, Any], language: str | None, languages: tuple[str, ...]
) -> None:
    lists = {k: json.dumps(v) if isinstance(v, list) else v for k, v in given.items()}
    options = parsed(**lists)
    assert (options.language, options.languages, options.warnings) == (language, languages, ())


@pytest.mark.parametrize(
    ("given", "end_ms", "speech_ends_ms"),
    [
        ({}, 500, 500),
        ({"min_turn_silence": 800}, 800, 500),
        ({"max_turn_silence": 300}, 300, 300),
        ({"min_turn_silence": 100, "max_turn_silence": 100}, 100, 100),
        ({"max_turn_silence": 0}, 100, 100),
        ({"end_of_turn_confidence_threshold": 0}, 100, 100),
        ({"end_of_turn_confidence_threshold": 0.5}, 750, 500),
        ({"end_of_turn_confidence_threshold": 0.9}, 1_280, 500),
        ({"end_of_turn_confidence_threshold": 1, "max_turn_silence": 5_000}, 5_000, 500),
        ({"min_end_of_turn_silence_when_confident": 700}, 700, 500),
    ],
)
def test_a_turn_ends_after_a_silence(
    given: dict[str, object], end_ms: int, speech_ends_ms: int
) -> None:
    options = parsed(**given)
    assert (options.policy.end_ms, options.silence) == (end_ms, speech_ends_ms)


def test_one_may_be_as_sure_as_is_asked_for_after_that_silence() -> None:
    policy = TurnSettings(end_of_turn_confidence_threshold=0.5).policy(500, judged=False)
    assert (policy.confidence(policy.end_ms), policy.confidence(500)) == (0.5, 0.4)


def test_an_update_changes_what_it_names_only() -> None:
    options = parsed(min_turn_silence="800", format_turns="true")
    changed = options.updated({"max_turn_silence": 900, "agent_context": "Hello", "prompt": None})
    assert (changed.policy.least_ms, changed.policy.longest_ms) == (800, 900)
    assert changed.policy.threshold == options.policy.threshold
    assert changed.turns.format_turns is True
    assert changed.warnings == ("agent_context has no effect",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keyterms_prompt": ["Ada"]}, "keyterms_prompt cannot change within a session"),
        ({"filter_profanity": True}, "filter_profanity is not supported"),
        ({"max_turn_silence": 700}, r"min_turn_silence \(800\) is above max_turn_silence \(700\)"),
        ({"max_turn_silence": "soon"}, "max_turn_silence 'soon' cannot be used"),
        ({"nonsense": 1}, "nonsense is not supported; supported: end_of_turn_confidence_threshold"),
    ],
)
def test_what_cannot_change_is_refused_by_name(changes: dict[str, object], said: str) -> None:
    options = parsed(min_turn_silence="800")
    with pytest.raises(BadRequest, match=said):
        options.updated(changes)
