"""A frontend names missing pools: in its health, and in the answers to clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from auricle.core.errors import WorkerUnavailable
from auricle.frontend.transport.grpc.schema import message
from tests.fakes.front import Front
from tests.fakes.pools import Pools
from tests.fakes.rpc import calling, unary

pytestmark = pytest.mark.unit
# A model of each optional pool; nothing reads them here.
MODELS: dict[str, Any] = {
    "align_model": "models/aligner",
    "speaker_model": "models/speakers",
    "translate_model": "models/translator",
}
HEALTH = "grpc.health.v1.Health"


class Ready(Front):
    """A frontend with a processor and every pool, until a test empties some."""

    def __init__(self) -> None:
        super().__init__(**MODELS)
        self.pools = self.frontend.admission.pools = Pools()
        self.running = [1]  # processors, which are not asked for admission
        opening = cast(Any, SimpleNamespace(instances=self._instances))
        self.processors.open = opening

    async def _instances(self) -> list[int]:
        return self.running

    @asynccontextmanager
    async def without(self, *kinds: str) -> AsyncIterator[None]:
        """Serve after these pools, which were there, have lost their workers."""
        await self.pools.looked()
        await self.pools.empty(*kinds)
        async with asyncio.timeout(60), self.serving():
            yield


async def health(front: Front) -> tuple[int, dict[str, Any]]:
    answer = await front.get("/health")
    return answer.status_code, answer.json()


async def test_a_frontend_with_all_pools_is_ready() -> None:
    front = Ready()
    async with front.without():
        assert await health(front) == (200, {"status": "ready", "processors": 1, "missing": []})


async def test_health_names_a_pool_that_every_session_needs() -> None:
    front = Ready()
    async with front.without("encode_worker", "pd_worker"):
        status, told = await health(front)
        assert (await front.get("/live")).status_code == 200  # a restart would not help
    assert (status, told["missing"]) == (503, ["encode_worker", "pd_worker"])
    assert told["status"] == "no encode_worker and no pd_worker is running"


async def test_an_optional_pool_is_awaited_when_a_frontend_starts() -> None:
    front = Ready()
    await front.pools.empty("diarize_worker")
    async with asyncio.timeout(60), front.serving():
        assert await health(front) == (
            503,
            {
                "status": "no diarize_worker is running",
                "processors": 1,
                "missing": ["diarize_worker"],
            },
        )
        front.pools.listings["diarize_worker"].instances.append(1)
        await front.pools.looked()
        assert (await health(front))[0] == 200


async def test_an_optional_pool_that_is_lost_is_named_by_a_ready_frontend() -> None:
    front = Ready()
    async with front.without("translate_worker"):
        assert await health(front) == (
            200,
            {"status": "ready", "processors": 1, "missing": ["translate_worker"]},
        )


async def test_health_names_missing_processors_and_shutting_down() -> None:
    front = Ready()
    async with front.without():
        front.running.clear()
        assert (await health(front))[1]["status"] == "no processor is running"
        front.frontend.admission.begin_drain(60.0)
        status, told = await health(front)
    assert (status, told["status"], told["processors"]) == (503, "shutting down", 0)


async def test_grpcs_health_is_the_same() -> None:
    front = Ready()
    await front.pools.looked()
    reply = message(f"{HEALTH}CheckResponse")
    asked = message(f"{HEALTH}CheckRequest")().SerializeToString()

    async def told(channel: Any) -> str:
        status = reply.FromString(await unary(channel, f"{HEALTH}/Check", asked)).status
        return str(reply.ServingStatus.Name(status))

    async with asyncio.timeout(60), calling(front) as channel:
        assert await told(channel) == "SERVING"
        await front.pools.empty("pd_worker")
        assert await told(channel) == "NOT_SERVING"


@pytest.mark.parametrize("path", ["audio/transcriptions", "audio/translations", "listen"])
async def test_recordings_are_refused_with_the_missing_pools_name(path: str) -> None:
    front = Ready()
    async with front.without("pd_worker"):
        answer = await front.post(path=f"/v1/{path}")
    assert answer.status_code == 503
    assert "no pd_worker of this server is running" in answer.text
    assert int(answer.headers["retry-after"]) >= 1


async def posted(front: Front, query: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=front.url, timeout=60) as client:
        return await client.post(f"/v1/listen?{query}", content=b"RIFF")


@pytest.mark.parametrize(
    ("pool", "fields", "annotation"),
    [
        ("align_worker", {"timestamp_granularities[]": "word"}, "words"),
        ("align_encode_worker", {"timestamp_granularities[]": "word"}, "words"),
        ("diarize_worker", {"speakers": "true"}, "speakers"),
    ],
)
async def test_a_recordings_annotations_are_refused_without_their_pool(
    pool: str, fields: dict[str, str], annotation: str
) -> None:
    front = Ready()
    async with front.without(pool):
        answer = await front.post(response_format="verbose_json", **fields)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert answer.json()["error"]["message"] == (
        f"no {pool} of this server is running, which {annotation} need; try again"
    )


async def test_a_translation_and_deepgrams_speakers_are_refused_without_their_pool() -> None:
    front = Ready()
    async with front.without("diarize_worker", "translate_worker"):
        translated = await front.post(path="/v1/audio/translations", to_language="es")
        listened = await posted(front, "diarize=true")
    assert (translated.status_code, listened.status_code) == (503, 503)
    assert "no translate_worker of this server is running" in translated.text
    assert "no diarize_worker of this server is running" in listened.text


@pytest.mark.parametrize(
    ("pool", "path", "first"),
    [
        ("align_worker", "/v1/audio/stream", {"words": True}),
        ("diarize_worker", "/v1/audio/stream", {"diarize": True}),
        ("translate_worker", "/v1/audio/stream", {"translate": ["es"]}),
        ("align_worker", "/v1/listen?encoding=linear16&sample_rate=16000&word_times=aligned", {}),
        ("align_worker", "/v3/ws?sample_rate=16000&word_times=aligned", {}),
        ("diarize_worker", "/v1/listen?encoding=linear16&sample_rate=16000&diarize=true", {}),
        ("diarize_worker", "/v3/ws?sample_rate=16000&speaker_labels=true", {}),
    ],
)
async def test_a_live_sessions_annotations_are_refused_without_their_pool(
    pool: str, path: str, first: dict[str, Any]
) -> None:
    front = Ready()
    async with front.without(pool), front.connect(path) as socket:
        if first:
            start = {"type": "start", "sample_rate": 16_000, **first}
            await socket.send(json.dumps(start))
        told = str(await socket.recv())
    assert f"no {pool} of this server is running" in told


async def test_a_session_that_resumes_is_not_refused() -> None:
    """It has begun, and its client has audio that must not be lost."""
    front = Ready()
    frontend, slot = front.frontend, front.frontend.admission.slot
    await front.pools.empty(*front.pools.listings)
    with slot("client") as held:
        async with frontend.admission.admitted("acme", "s", held, resumes=True):
            frontend.check_words(True, resumes=True)
            frontend.check_speakers(True, resumes=True)
            frontend.check_translator(("es",), resumes=True)
        with pytest.raises(WorkerUnavailable, match="no encode_worker and no pd_worker"):
            async with frontend.admission.admitted("acme", "s", held):
                pass
