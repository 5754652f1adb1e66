"""What a recording's decoding process is told: when sentences may be joined."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.decoding_pool import Decoders
from auricle.frontend.recordings.decoding_process import DecodingJob, EndOfRecording
from auricle.frontend.recordings.transcriber import Recording, RecordingTranscriber, Whole
from auricle.settings import FrontendSettings

pytestmark = pytest.mark.unit


class NoAudio:
    """Notes the job, and gives a recording without speech."""

    job: DecodingJob

    async def outputs(self, job: DecodingJob, path: Path, owner: str) -> Any:
        self.job = job
        yield EndOfRecording(16_000)


async def job(timed: bool, **settings: object) -> DecodingJob:
    made = FrontendSettings.model_validate({"model": "models/demo", **settings})
    decoders = NoAudio()
    transcriber = RecordingTranscriber(
        cast(Frontend, SimpleNamespace(settings=made)), cast(Decoders, decoders)
    )
    recording = Recording("1", Path("x"), "x", "acme", "acme", None, "", None, timed)
    assert [output async for output in transcriber.transcribe(recording)] == [Whole(1.0)]
    return decoders.job


async def test_sentences_are_decoded_one_by_one_as_in_a_live_session() -> None:
    assert (await job(timed=False)).join == 0


async def test_sentences_are_joined_if_told_to_and_nobody_wants_their_times() -> None:
    assert (await job(timed=False, join_sentences_seconds=8)).join == 128_000
    assert (await job(timed=True, join_sentences_seconds=8)).join == 0
    bus = {"nats_server": "nats://127.0.0.1:4222", "join_sentences_seconds": 8}
    assert (await job(timed=False, **bus)).join == 0
