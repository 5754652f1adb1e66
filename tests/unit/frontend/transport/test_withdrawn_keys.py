"""The view of clients whose key is withdrawn, and the uses of operators' keys."""

from __future__ import annotations

import asyncio

import pytest

from auricle.config.settings import FrontendSettings
from auricle.core.errors import SettingsError
from auricle.frontend.transport.access.gate import access_of
from auricle.frontend.transport.access.keys import ApiKey, new_key
from tests.fakes.front import START, Front, last_words, refused

pytestmark = pytest.mark.unit
LISTEN = tuple(f"/v{n}/listen?encoding=linear16&sample_rate=16000" for n in (1, 2))
ASSEMBLYAI = "/v3/ws?sample_rate=16000"
BY_STATUS = ("/v1/audio/stream", "/v1/vapi")  # they refuse by the status of the handshake
WAYS = (*BY_STATUS, "/v1/realtime", *LISTEN, ASSEMBLYAI)


def made(name: str, *scopes: str) -> tuple[str, ApiKey]:
    return new_key(name, scopes=scopes or ("live", "recordings"))


# The first message of a session whose protocol is not our own.
FIRST = {"/v1/vapi": '{"type": "start", "sampleRate": 16000, "channels": 1}'}


@pytest.mark.parametrize("path", WAYS)
async def test_a_live_session_ends_with_a_reason_and_its_neighbour_goes_on(path: str) -> None:
    (secret, entry), (other_secret, other) = made("acme"), made("globex")
    front = Front([entry, other])
    async with asyncio.timeout(60), front.serving():
        async with front.connect(path, secret) as ending, front.connect(path, other_secret) as kept:
            for socket in (ending, kept):
                if path == "/v1/realtime":
                    await socket.recv()
                else:
                    if path not in (*LISTEN, ASSEMBLYAI):
                        await socket.send(FIRST.get(path, START))
                    await front.processors.opened.acquire()
            front.access.replace([other])
            said, code, reason = await last_words(ending)
            assert (code, reason) == (1008, "this API key was withdrawn")
            assert "this API key was withdrawn" in said
            assert "acme" not in said
            assert kept.close_code is None
            await (await kept.ping())
        code, said = await refused(front.connect(path, secret))
        assert (code, "this API key is not known here" in said) == (
            401 if path in BY_STATUS else 1008,
            True,
        )


async def test_a_recording_ends_too() -> None:
    secret, entry = made("acme")
    front = Front([entry])
    begun = asyncio.Event()

    async def parts(*_: object) -> object:
        begun.set()
        await asyncio.Event().wait()
        yield

    front.decoders.outputs = parts
    async with asyncio.timeout(60), front.serving():
        posting = asyncio.create_task(front.post(secret))
        await begun.wait()
        front.access.replace([])
        answer = await posting
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "this API key was withdrawn"


async def test_a_key_opens_what_it_is_for() -> None:
    live, live_entry = made("live", "live")
    recordings, recordings_entry = made("recordings", "recordings")
    front = Front([live_entry, recordings_entry])
    async with asyncio.timeout(60), front.serving():
        assert (await front.post(live)).json()["error"]["code"] == "forbidden"
        for path in WAYS:
            code, said = await refused(front.connect(path, recordings))
            assert code == (403 if path in BY_STATUS else 1008)
            assert '"this API key is not for live; its scopes: recordings"' in said
        assert (await front.get("/v1/models", live)).status_code == 200
        assert (await front.get("/v1/models", recordings)).status_code == 200


async def test_metrics_are_open_unless_they_need_an_operators_key() -> None:
    (secret, client), (operator_secret, operator) = made("acme"), made("ops", "operations")
    front = Front([client, operator])
    async with asyncio.timeout(60), front.serving():
        assert (await front.get("/metrics")).status_code == 200
    front = Front([client, operator], metrics_need_key=True)
    async with asyncio.timeout(60), front.serving():
        assert (await front.get("/metrics")).status_code == 401
        assert (await front.get("/metrics", secret)).status_code == 403
        assert (await front.get("/metrics", operator_secret)).status_code == 200
        assert (await front.post(operator_secret)).status_code == 403
        for path in ("/live", "/health"):
            assert (await front.get(path)).status_code in (200, 503)


def test_metrics_cannot_need_a_key_where_there_are_none() -> None:
    with pytest.raises(SettingsError, match=r"Frontend\.metrics_need_key is set without API keys"):
        access_of(FrontendSettings(metrics_need_key=True))
