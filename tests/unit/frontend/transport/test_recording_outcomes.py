"""The metrics of transcription requests, over a real HTTP server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
import uvicorn
from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.frontend.frontend import Frontend
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.transcriptions.endpoint import TranscriptionRequests
from auricle.frontend.recordings.requests import RecordingRequests
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.admission import SessionAdmission
from auricle.process.http_server import EmbeddedServer
from tests.fakes.transcriber import Scripted

pytestmark = pytest.mark.unit
SECRET, LIMITED = new_key("acme")


ANYBODY = KeyRing(None)


class Requests:
    """The endpoint under test, at `url`."""

    def __init__(self, keys: KeyRing = ANYBODY) -> None:
        self._registry = CollectorRegistry()
        settings = FrontendSettings()
        metrics = FrontendMetrics(self._registry, settings)
        unused = cast(Any, None)
        self.admission = SessionAdmission(unused, 1)
        frontend = Frontend(settings, ("demo",), unused, self.admission, unused, unused, metrics)
        self.transcriber = Scripted()
        requests = RecordingRequests(
            *(frontend, Access(keys), cast(RecordingTranscriber, self.transcriber))
        )
        self._app = TranscriptionRequests(requests)
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = EmbeddedServer(uvicorn.Config(self._app, log_config=None, lifespan="off"))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await server.accepting.wait()
            yield
            server.should_exit = True
            await serving

    async def post(self, name: str, **fields: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(
                self.url,
                data={"model": "demo", **fields},
                files={"file": (name, b"RIFF")},
                headers={"Authorization": f"Bearer {SECRET}"},
            )

    def ended(self) -> dict[str, float]:
        name = "auricle_frontend_recordings_ended_total"
        return {
            sample.labels["result"]: sample.value
            for metric in self._registry.collect()
            for sample in metric.samples
            if sample.name == name
        }


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_an_answered_recording_is_done(stream: str) -> None:
    requests = Requests()
    async with asyncio.timeout(60), requests.serving():
        assert "ten green apples" in (await requests.post("x.wav", stream=stream)).text
    assert requests.ended() == {"done": 1}


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_a_recording_is_told_when_the_frontend_cannot_wait_for_it(stream: str) -> None:
    requests = Requests()
    async with asyncio.timeout(60), requests.serving():
        asked = asyncio.create_task(requests.post("endless.wav", stream=stream))
        await requests.transcriber.asked.wait()
        assert requests.admission.begin_drain(10.0) == 1
        assert not asked.done()
        requests.admission.begin_drain(0.0)
        answer = await asked
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "shutting down; send the recording again" in answer.text
    assert requests.ended() == {"overloaded": 1}
    assert requests.admission.begin_drain(0.0) == 0


async def test_a_recording_that_fails_counts_by_its_error() -> None:
    requests = Requests()
    async with asyncio.timeout(60), requests.serving():
        assert (await requests.post("broken.wav")).status_code == 400
    assert requests.ended() == {"undecodable_audio": 1}


async def test_a_client_that_leaves_before_the_answer_is_gone() -> None:
    requests = Requests()
    async with asyncio.timeout(60), requests.serving():
        posting = asyncio.create_task(requests.post("endless.wav"))
        await requests.transcriber.asked.wait()
        posting.cancel()
        await asyncio.gather(posting, return_exceptions=True)
    assert requests.ended() == {"client_gone": 1}


def limited(minutes_per_minute: float) -> KeyRing:
    return KeyRing([LIMITED.model_copy(update={"audio_minutes_per_minute": minutes_per_minute})])


@pytest.mark.parametrize("name", ["silence.wav", "broken.wav"])
async def test_all_that_was_decoded_is_charged(name: str) -> None:
    """This includes silence, and audio decoded before a recording failed."""
    requests = Requests(limited(1.0))
    requests.transcriber.heard = 59.0
    async with asyncio.timeout(60), requests.serving():
        await requests.post(name)
        assert (await requests.post("x.wav")).status_code == 200  # 59 of 60 s are used
        assert (await requests.post("x.wav")).status_code == 429


async def test_what_is_charged_is_not_text() -> None:
    requests = Requests()
    async with asyncio.timeout(60), requests.serving():
        assert (await requests.post("x.wav", response_format="json")).json() == {
            "text": "ten green apples",
            "usage": {"type": "duration", "seconds": 1},
        }


async def test_turns_are_the_tenants_and_without_keys_the_addresses() -> None:
    for keys, owner in ((limited(60.0), "acme"), (ANYBODY, "127.0.0.1")):
        requests = Requests(keys)
        async with asyncio.timeout(60), requests.serving():
            await requests.post("x.wav")
        assert [recording.owner for recording in requests.transcriber.recordings] == [owner]
