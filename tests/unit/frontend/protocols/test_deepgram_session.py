"""Sessions of `/v1/listen`: handshakes, and sessions with a fake processor."""

from __future__ import annotations

import json

import numpy as np
import pytest
import websockets

from auricle.frontend.transport.access.keys import new_key
from tests.fakes.deepgram import AUDIO, CLOSE, FINALIZE, LOUD, QUIET, refusal, served
from tests.fakes.front import Front, last_words

pytestmark = pytest.mark.unit


async def test_a_session_ends_with_its_text_and_metadata() -> None:
    client = await served(LOUD, QUIET, CLOSE)
    assert client.kinds == ["Results", "Metadata"]
    results, metadata = client.sent
    assert results["channel"]["alternatives"] == [
        {"transcript": "word", "confidence": 0.0, "words": []}
    ]
    assert (results["is_final"], results["speech_final"]) == (True, True)
    assert (metadata["duration"], metadata["channels"]) == (2.0, 1)
    assert client.charged == 2.0


async def test_an_empty_binary_message_ends_the_audio() -> None:
    client = await served(LOUD, QUIET, b"", LOUD)
    assert client.kinds == ["Results", "Metadata"]
    assert client.sent[-1]["duration"] == 2.0


async def test_speech_that_is_finalized_within_a_sample_goes_on_after_it() -> None:
    client = await served(LOUD[:-1], FINALIZE, LOUD[-1:] + LOUD, CLOSE)
    first, second, metadata = client.sent
    assert (first["from_finalize"], second["from_finalize"]) == (True, False)
    assert metadata["duration"] == 2.0


async def test_a_message_that_is_none_is_answered_and_the_session_continues() -> None:
    client = await served("nonsense", '{"type": "Stop"}', '{"type": "KeepAlive"}', LOUD, CLOSE)
    assert client.kinds == ["Error", "Error", "Results", "Metadata"]
    assert [e["variant"] for e in client.sent[:2]] == ["SchemaError"] * 2
    assert client.sent[1]["description"].startswith("not a message that is supported (KeepAlive,")


async def test_options_cannot_change_within_a_session() -> None:
    client = await served('{"type": "Configure", "keyterms": ["Ada"]}', CLOSE)
    assert client.kinds == ["ConfigureFailure", "Metadata"]


async def test_a_client_is_told_what_has_no_effect() -> None:
    client = await served(CLOSE, query=f"{AUDIO}&punctuate=true")
    assert client.sent[-1]["warnings"] == ["punctuate has no effect"]


# ── several channels ────────────────────────────────────────────────────────

TWO = f"{AUDIO}&channels=2&multichannel=true"


def both(first: bytes, second: bytes) -> bytes:
    """Two interleaved channels."""
    pair = np.stack([np.frombuffer(first, "<i2"), np.frombuffer(second, "<i2")], axis=1)
    return pair.tobytes()


async def test_each_channel_is_a_session_of_its_own() -> None:
    audio = both(LOUD + QUIET, QUIET + LOUD)
    packets = [audio[at : at + 999] for at in range(0, len(audio), 999)]  # cuts within samples
    client = await served(*packets, CLOSE, query=f"{TWO}&vad_events=true")
    told = {tuple(m.get("channel_index", m.get("channel", ()))): m for m in client.sent[:-1]}
    assert set(told) == {(0, 2), (1, 2)}
    started = {m["channel"][0]: m["timestamp"] for m in client.sent if m["type"] == "SpeechStarted"}
    assert started[0] < 0.1 and 0.9 < started[1] < 1.1
    assert client.sent[-1]["channels"] == 2
    assert client.sent[-1]["duration"] == 2.0
    assert client.charged == pytest.approx(4.0)  # the audio of both channels


async def test_all_channels_are_finalized() -> None:
    client = await served(both(LOUD, QUIET), FINALIZE, CLOSE, query=TWO)
    answers = [m for m in client.sent if m.get("from_finalize")]
    assert sorted(answer["channel_index"] for answer in answers) == [[0, 2], [1, 2]]


async def test_a_server_that_leaves_ends_all_channels() -> None:
    client = await served(both(LOUD, LOUD), query=TWO, draining=True)
    assert client.kinds == ["Metadata"]


async def test_each_channel_takes_a_seat() -> None:
    """If the last channel cannot be admitted, all slots are released."""
    front = Front(max_sessions=2)
    async with front.serving():
        code, body = await refusal(front, f"/v1/listen?{AUDIO}&channels=3&multichannel=true")
        assert (code, body["description"]) == (1013, "all 2 sessions are in use")
        assert front.frontend.admission.open == 0
        async with front.connect(f"/v1/listen?{TWO}"):
            await front.processors.opened.acquire()
            await front.processors.opened.acquire()
            assert front.frontend.admission.open == 2
            assert (await refusal(front, f"/v1/listen?{AUDIO}"))[0] == 1013


async def test_there_are_so_many_channels_at_most() -> None:
    front = Front(max_channels=2)
    async with front.serving():
        code, body = await refusal(front, f"/v1/listen?{AUDIO}&channels=3&multichannel=true")
        assert code == 1008
        assert body["description"].endswith("it must be a whole number from 1 to 2")


async def test_channels_count_as_sessions_of_a_key() -> None:
    secret, key = new_key("acme")
    front = Front([key.model_copy(update={"max_sessions": 1})])
    async with front.serving(), front.connect(f"/v1/listen?{TWO}", secret) as socket:
        said, code, _ = await last_words(socket)
    assert json.loads(said)["code"] == "rate_limited"
    assert code == 1013


# ── at the door ─────────────────────────────────────────────────────────────


async def test_options_that_cannot_be_served_are_refused_before_a_session() -> None:
    front = Front()
    async with front.serving():
        code, body = await refusal(front, f"/v1/listen?{AUDIO}&channels=2")
        assert code == 1008
        assert body["code"] == "unsupported_value"
        assert body["description"].startswith("channels=2 needs multichannel=true")
        code, body = await refusal(front, f"/v1/listen?{AUDIO}&model=nova-9")
        assert (code, body["code"]) == (1008, "model_not_found")


async def test_a_key_is_taken_as_deepgrams_clients_send_it() -> None:
    secret, key = new_key("acme")
    front = Front([key])
    path = f"/v1/listen?{AUDIO}"
    async with front.serving():
        assert (await refusal(front, path))[0] == 1008
        assert (await refusal(front, path, subprotocols=["token", "wrong"]))[0] == 1008
        token = {"Authorization": f"Token {secret}"}
        address = front.url.replace("http", "ws") + path
        async with websockets.connect(address, additional_headers=token):
            pass
        async with front.connect(path, subprotocols=["token", secret]) as socket:
            assert socket.subprotocol == "token"
