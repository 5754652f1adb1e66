"""Sessions of `StreamingRecognize` with a fake processor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from auricle.audio.wav import wav_header
from auricle.config.settings import FrontendSettings
from auricle.core.errors import BadRequest
from auricle.frontend.exporters.transcripts import NoBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.riva.service import StreamingRecognize
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.grpc.schema import message
from auricle_testing.fakes import InstantDetector, Processor, SteadyPulses, admission
from tests.fakes.place import HeldPlace

pytestmark = pytest.mark.unit
LINEAR_PCM = {"encoding": 1, "sample_rate_hertz": 16_000}
LOUD = np.full(16_000, 8_000, "<i2").tobytes()
QUIET = bytes(32_000)
PACKAGE = "nvidia.riva.asr"


def request(**fields: Any) -> bytes:
    data: bytes = message(f"{PACKAGE}.StreamingRecognizeRequest")(**fields).SerializeToString()
    return data


def asked(interim_results: bool = False, **config: Any) -> bytes:
    return request(
        streaming_config={"config": config, "interim_results": interim_results},
        id={"value": "call 1"},
    )


class Caller(HeldPlace):
    """One call's client: it sends these messages and then only reads."""

    session, trace = "sess_1", ""
    client = SimpleNamespace(key=ANYONE, tenant="default")

    def __init__(self, *messages: bytes) -> None:
        super().__init__()
        self._messages = list(messages)
        self.sent: list[Any] = []
        self.warnings: Sequence[str] = ()
        self.charged = 0.0
        self.went_at: int | None = None

    async def receive(self, _seconds: float, _what: str) -> bytes | None:
        for _ in range(20):  # all messages in flight arrive
            await asyncio.sleep(0)
        return self._messages.pop(0) if self._messages else None

    async def warn(self, warnings: Sequence[str]) -> None:
        self.warnings = warnings

    async def charge(self, seconds: float) -> None:
        self.charged += seconds

    def end_early(self, samples: int) -> None:
        self.went_at = samples

    async def send(self, data: bytes) -> None:
        self.sent.append(message(f"{PACKAGE}.StreamingRecognizeResponse").FromString(data))

    @property
    def texts(self) -> list[str]:
        return [r.alternatives[0].transcript for m in self.sent for r in m.results]


async def served(*messages: bytes, draining: bool = False) -> Caller:
    """A caller after the end of its session."""
    settings, processor = FrontendSettings(), cast(Any, Processor())
    frontend = Frontend(
        settings,
        ("demo",),
        ProcessorEndpoints(*[processor] * 5, cast(Any, SteadyPulses())),
        admission(draining=draining),
        InstantDetector(),
        NoBus(),
        FrontendMetrics(CollectorRegistry(), settings),
    )
    caller = Caller(*messages)
    async with asyncio.timeout(60):
        await StreamingRecognize(frontend).run(cast(Any, caller))
    return caller


async def test_a_session_ends_with_its_text() -> None:
    caller = await served(
        asked(**LINEAR_PCM), request(audio_content=LOUD), request(audio_content=QUIET)
    )
    assert caller.texts == ["word "]
    assert [response.id.value for response in caller.sent] == ["call 1"]
    assert caller.charged == 2.0


async def test_interim_results_come_if_they_were_asked_for() -> None:
    caller = await served(
        asked(interim_results=True, **LINEAR_PCM),
        *(request(audio_content=LOUD), request(audio_content=LOUD)),
    )
    assert caller.texts[-1] == "word "
    interim = [r for m in caller.sent for r in m.results if not r.is_final]
    assert {r.alternatives[0].transcript for r in interim} == {"a", " b"}


@pytest.mark.parametrize("cut", [7, 1_000])
async def test_a_wav_file_is_heard_without_its_header_and_what_follows(cut: int) -> None:
    file = wav_header("pcm_s16le", 16_000, len(LOUD)) + LOUD + b"LIST" + bytes(4_000)
    parts = [request(audio_content=file[:cut]), request(audio_content=file[cut:])]
    caller = await served(asked(), *parts)
    assert caller.texts == ["word "]
    assert caller.charged == 1.0


async def test_a_call_without_audio_has_no_text() -> None:
    caller = await served(asked())
    assert (caller.texts, caller.charged) == ([], 0.0)


async def test_a_client_is_told_what_has_no_effect() -> None:
    caller = await served(asked(verbatim_transcripts=True, **LINEAR_PCM))
    assert caller.warnings == ("verbatim_transcripts has no effect",)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "the call ended before its streaming_config"),
        ([request(audio_content=LOUD)], "the first message must have streaming_config"),
        ([asked(**LINEAR_PCM), asked(**LINEAR_PCM)], "streaming_config can be sent once only"),
        ([asked(**LINEAR_PCM), request(runtime_config={"a": "b"})], "runtime_config 'a' is not"),
        ([asked(), request(audio_content=LOUD)], "the audio has no WAV header"),
        ([asked(), request(audio_content=b"RIFF")], "the audio ended within its WAV header"),
        ([asked(model="x", **LINEAR_PCM)], "the model 'x' does not exist"),
        (
            [request(streaming_config={"interim_results": True}, id={"value": "x" * 513})],
            "id has 513 characters",
        ),
        ([b"\xff\xff"], "the message is not a valid StreamingRecognizeRequest"),
    ],
)
async def test_what_cannot_be_understood_ends_the_call(messages: list[bytes], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        await served(*messages)
