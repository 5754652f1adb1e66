"""Recordings, and sessions without partial text, may have longer segments than live ones."""

from __future__ import annotations

import json

import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.config.settings import FrontendSettings, ProcessorSettings
from auricle.frontend.audio.endpointing import ServerVadFields
from auricle.frontend.protocols.stream.start import endpointing_options, parse_start
from auricle.frontend.protocols.transcriptions.form import ChunkingStrategy
from auricle.processor.session.rules import SessionRules
from auricle.protocol.sessions import OpenSession

pytestmark = pytest.mark.unit
LIVE_MS, RECORDED_MS, OWN_MS = 400, 2_000, 900
SETTINGS = FrontendSettings(min_silence_ms=LIVE_MS, recording_min_silence_ms=RECORDED_MS)


def of_stream(settings: FrontendSettings, **start: object) -> int:
    message = {"type": "start", "sample_rate": 16_000, **start}
    options = endpointing_options(parse_start(json.dumps(message)), settings)
    assert options is not None
    return options.min_silence_ms


def of_recording(settings: FrontendSettings, silence_ms: int | None = None) -> int:
    options = ChunkingStrategy(silence_duration_ms=silence_ms).for_recordings(settings)
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


@pytest.mark.parametrize(("partials", "seconds"), [(True, 10), (False, 20)])
def test_a_session_without_partial_text_ends_segments_at_pauses_later(
    partials: bool, seconds: int
) -> None:
    settings = ProcessorSettings(pause_after_seconds=10, recording_pause_after_seconds=20)
    rules = SessionRules.of(OpenSession("s", "t", None, "", 640, partials=partials), settings)
    assert rules.segments.limits.pause_after == seconds * SAMPLE_RATE


def test_by_default_recordings_have_the_pauses_of_live_sessions() -> None:
    assert FrontendSettings(pause_after_seconds=7).recorded_pause_after == 7
