"""Recordings, and sessions without partial text, may have longer segments than live ones."""

from __future__ import annotations

import json

import pytest

from auricle.frontend.listening.server_vad import ServerVadFields
from auricle.frontend.stream.parsing import endpointing_options, parse_start
from auricle.frontend.transcriptions.endpoint import endpointing
from auricle.frontend.transcriptions.form import ChunkingStrategy
from auricle.settings import FrontendSettings

pytestmark = pytest.mark.unit
LIVE_MS, RECORDED_MS, OWN_MS = 400, 2_000, 900
SETTINGS = FrontendSettings(min_silence_ms=LIVE_MS, recording_min_silence_ms=RECORDED_MS)


def of_stream(settings: FrontendSettings, **start: object) -> int:
    message = {"type": "start", "sample_rate": 16_000, **start}
    options = endpointing_options(parse_start(json.dumps(message)), settings)
    assert options is not None
    return options.min_silence_ms


def of_recording(settings: FrontendSettings, silence_ms: int | None = None) -> int:
    options = endpointing(ChunkingStrategy(silence_duration_ms=silence_ms), settings)
    assert options is not None
    return options.min_silence_ms


def test_recordings_end_segments_at_a_silence_of_their_own() -> None:
    assert of_recording(SETTINGS) == RECORDED_MS
    assert of_stream(SETTINGS, partials=False) == RECORDED_MS


def test_whoever_waits_for_text_has_the_silence_of_live_sessions() -> None:
    assert of_stream(SETTINGS) == LIVE_MS
    assert ServerVadFields().over(SETTINGS).min_silence_ms == LIVE_MS


def test_what_a_client_asks_for_comes_first() -> None:
    own = {"min_silence_ms": OWN_MS}
    assert of_stream(SETTINGS, partials=False, endpointing=own) == OWN_MS
    assert of_recording(SETTINGS, OWN_MS) == OWN_MS


def test_without_the_setting_all_have_the_same() -> None:
    plain = FrontendSettings(min_silence_ms=LIVE_MS)
    assert of_recording(plain) == of_stream(plain, partials=False) == LIVE_MS
