"""Fields of `session.update`: applied, accepted without effect, and rejected ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal, get_args

import pytest
from openai.types import AudioModel

from auricle.config.settings import FrontendSettings
from auricle.core.errors import UnsupportedValue
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.turn_detection import WAITS
from auricle.frontend.frontend import DEFAULT_NAMES
from auricle.frontend.protocols.realtime.config import (
    SemanticVad,
    ServerVad,
    SessionConfig,
    described,
)
from tests.fakes.front import Front
from tests.frameworks import LIVEKIT, LIVEKIT_LIVE, PIPECAT, PIPECAT_SERVER_VAD

pytestmark = pytest.mark.unit


def updated(config: SessionConfig | None = None, **audio_input: Any) -> SessionConfig:
    return (config or SessionConfig()).updated({"audio": {"input": audio_input}})


def asked(**transcription: Any) -> SessionConfig:
    return updated(transcription=transcription)


@pytest.mark.parametrize("session", [LIVEKIT, LIVEKIT_LIVE, PIPECAT, PIPECAT_SERVER_VAD])
def test_what_frameworks_send_is_taken(session: dict[str, Any]) -> None:
    config = SessionConfig().updated(session)
    assert config.audio.input.transcription.spoken == "en"
    assert config.encoding == ("pcm_s16le", 24_000)


async def test_a_session_is_told_what_has_no_effect_and_hears_of_no_error() -> None:
    front = Front()
    async with (
        asyncio.timeout(120),
        front.serving(),
        front.connect("/v1/realtime?intent=transcription&model=gpt-live-transcribe") as socket,
    ):
        assert json.loads(await socket.recv())["type"] == "session.created"
        for session, warnings in (
            (LIVEKIT, []),
            (
                LIVEKIT_LIVE,
                ["noise_reduction has no effect: the model gets the audio unchanged"],
            ),
        ):
            named = session["audio"]["input"]["transcription"]["model"]
            await socket.send(json.dumps({"type": "session.update", "session": session}))
            answer = json.loads(await socket.recv())
            assert answer["type"] == "session.updated"
            assert answer["warnings"] == [
                f"model '{named}' is not served here; demo has replaced it", *warnings
            ]  # fmt: skip
        # A client of this model commits by itself.
        assert answer["session"]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize(
    ("session", "warning"),
    [
        ({"noise_reduction": {"type": "far_field", "strength": 0.5}}, "noise_reduction has no"),
        (
            {"turn_detection": {"type": "semantic_vad", "create_response": True}},
            "create_response has no effect",
        ),
        (
            {"turn_detection": {"type": "server_vad", "create_response": True}},
            "turn_detection.create_response has no effect: this server makes no responses",
        ),
        ({"turn_detection": {"interrupt_response": True}}, "turn_detection.interrupt_response"),
        ({"turn_detection": {"idle_timeout_ms": 6_000}}, "turn_detection.idle_timeout_ms"),
        ({"turn_detection": {"threshold": 1.0}}, "the nearest of 0.05 to 0.95"),
        ({"turn_detection": {"silence_duration_ms": 0}}, "silence_duration_ms is taken as 100"),
        (
            {"transcription": {"languages": list("abcde")}},
            "of more than 4 languages, it is detected",
        ),
        ({"transcription": {"delay": "xhigh"}}, "transcription.delay xhigh is served as medium"),
    ],
)
def test_what_is_advisory_is_taken_and_named(session: dict[str, Any], warning: str) -> None:
    [said] = updated(**session).warnings
    assert warning in said


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"noise_reduction": None, "turn_detection": None},
        {"turn_detection": {"create_response": False, "interrupt_response": False}},
        {"turn_detection": {"idle_timeout_ms": None}},
        {"transcription": {"keywords": ["Ada"], "languages": ["en"], "delay": "low"}},
    ],
)
def test_what_is_honoured_is_not_warned_of(session: dict[str, Any]) -> None:
    assert updated(**session).warnings == []


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ({"type": "realtime"}, "session.type 'realtime' cannot be used: it must be transcripti"),
        ({"voice": "x"}, "session.voice is not supported"),
        ({"audio": {"output": {}}}, "session.audio.output is not supported"),
        ({"include": ["item.words"]}, "session.include 'item.words' cannot be used"),
        (
            {"audio": {"input": {"noise_reduction": {"type": "none"}}}},
            "noise_reduction.type 'none' cannot be used: it must be far_field or near_field",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "magic"}}}},
            "turn_detection.type 'magic' cannot be used: it must be server_vad or",
        ),
        (
            {"audio": {"input": {"turn_detection": {"threshold": 2}}}},
            "input.turn_detection.threshold 2 cannot be used: it must be a number from",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "threshold": 0.5}}}},
            "session.audio.input.turn_detection.threshold is not supported",
        ),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 8_000}}}},
            "session.audio.input.format.rate 8000 cannot be used: it must be 16000 or 24000",
        ),
        (
            {"audio": {"input": {"transcription": {"chunk_ms": 10}}}},
            "input.transcription.chunk_ms 10 cannot be used: it must be a whole number",
        ),
        (
            {"audio": {"input": {"transcription": {"language": "en", "languages": ["de"]}}}},
            "send either language or languages",
        ),
        (
            {"audio": {"input": {"transcription": {"keywords": ["x" * 1_500, "y" * 600]}}}},
            "keywords has 2102 characters, at most 2000 are allowed",
        ),
        (
            {"audio": {"input": {"transcription": {"prompt": "x" * 1_999, "keywords": ["y"]}}}},
            "prompt and keywords has 2001 characters",
        ),
        (
            {"audio": {"input": {"transcription": {"keywords": "Ada"}}}},
            "input.transcription.keywords 'Ada' cannot be used: it must be a JSON list",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(session: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedValue) as refused:
        SessionConfig().updated(session)
    assert message in str(refused.value)


def test_keywords_are_context_as_the_prompt_is() -> None:
    assert asked(keywords=["Ada", "Grace Hopper"]).audio.input.transcription.context == (
        "Ada, Grace Hopper"
    )
    both = asked(prompt="On the navy.", keywords=["Ada", "Grace"]).audio.input.transcription
    assert both.context == "On the navy. Ada, Grace"


def test_null_stands_for_a_field_that_is_not_given() -> None:
    """Clients of typed languages send all fields."""
    before = updated(format={"type": "audio/pcm", "rate": 16_000}, transcription={"language": "en"})
    nulls = dict.fromkeys(("format", "transcription"))
    assert updated(before, **nulls) == before
    assert before.updated({"type": None, "audio": {"input": None}, "include": None}) == before
    plain = updated(
        format={"type": "audio/pcm", "rate": None},
        transcription=dict.fromkeys(("language", "languages", "prompt", "model", "keywords")),
        turn_detection={"type": None, "threshold": None, "create_response": None},
    )
    assert plain == SessionConfig()
    assert (
        updated(before, transcription={"language": None}).audio.input.transcription.spoken is None
    )


def test_one_of_languages_is_forced_and_among_several_it_is_detected() -> None:
    assert asked(languages=["de"]).audio.input.transcription.spoken == "de"
    several = asked(languages=["de", "en", "de"]).audio.input.transcription
    assert (several.spoken, several.among) == (None, ("de", "en"))
    assert asked(languages=[]).audio.input.transcription.spoken is None


def test_the_later_of_language_and_languages_holds() -> None:
    config = updated(asked(language="en"), transcription={"languages": ["de"]})
    assert config.audio.input.transcription.spoken == "de"
    config = updated(config, transcription={"language": "fr"})
    assert config.audio.input.transcription.spoken == "fr"


@pytest.mark.parametrize(
    ("first", "later", "detects"),
    [
        ({"transcription": {"model": "gpt-live-transcribe"}}, {}, False),
        ({"transcription": {"model": "gpt-realtime-whisper"}}, {}, False),
        ({"transcription": {"model": "gpt-transcribe"}}, {}, True),
        (
            {
                "transcription": {"model": "gpt-live-transcribe"},
                "turn_detection": {"type": "server_vad"},
            },
            {"transcription": {"model": "gpt-live-transcribe", "keywords": ["Ada"]}},
            True,
        ),
        ({"turn_detection": None}, {"turn_detection": {"threshold": 0.4}}, True),
    ],
)
def test_a_model_whose_turns_clients_end_comes_without_turn_detection(
    first: dict[str, Any], later: dict[str, Any], detects: bool
) -> None:
    config = updated(updated(**first), **later)
    assert (config.audio.input.turn_detection is not None) == detects


def test_turn_detection_stays_within_the_bounds_of_the_server() -> None:
    settings = FrontendSettings()
    assert ServerVad(threshold=0, silence_duration_ms=10).over(settings) == EndpointingOptions(
        threshold=0.05, min_silence_ms=100, pre_roll_ms=settings.pre_roll_ms
    )


async def test_semantic_turn_detection_is_refused_without_a_turn_model() -> None:
    front = Front()
    async with front.serving(), front.connect("/v1/realtime?intent=transcription") as socket:
        await socket.recv()
        given = {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}
        await socket.send(json.dumps({"type": "session.update", "session": given}))
        error = json.loads(await socket.recv())["error"]
        assert error["param"] == "session.audio.input.turn_detection.type"
        assert "Frontend.turn_model" in error["message"]


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto", None])
def test_semantic_turn_detection_ends_turns_as_eagerly_as_it_is_asked_to(
    eagerness: Literal["low", "medium", "high", "auto"] | None,
) -> None:
    options = SemanticVad(eagerness=eagerness).over(FrontendSettings())
    assert options.turns == WAITS[eagerness or "auto"]
    assert described(SemanticVad(eagerness=eagerness), options) == {
        "type": "semantic_vad",
        "eagerness": eagerness or "auto",
    }


def test_the_default_names_include_the_models_that_clients_name() -> None:
    unserved = set(get_args(AudioModel)) - DEFAULT_NAMES
    assert unserved == {"gpt-4o-transcribe-diarize"}  # its clients expect speakers
    for session in (LIVEKIT, LIVEKIT_LIVE, PIPECAT, PIPECAT_SERVER_VAD):
        given: Any = session["audio"]
        assert given["input"]["transcription"]["model"] in DEFAULT_NAMES
