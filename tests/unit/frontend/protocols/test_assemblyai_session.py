"""Sessions of `/v3/ws`: handshakes, and sessions with a fake processor."""

from __future__ import annotations

import json
from typing import Any

import pytest
import websockets

from auricle.core.errors import ProtocolError
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol, words_of
from auricle.frontend.session.turns import Turn, TurnSegment
from auricle.frontend.transport.access.keys import new_key
from tests.fakes.deepgram import LOUD, QUIET, Client, refusal, served
from tests.fakes.front import Front, last_words

pytestmark = pytest.mark.unit
AUDIO = "sample_rate=16000&encoding=pcm_s16le"
PATH = f"/v3/ws?{AUDIO}"
FORCE, TERMINATE, KEEP_ALIVE = (
    f'{{"type": "{name}"}}' for name in ("ForceEndpoint", "Terminate", "KeepAlive")
)
NEVER_SURE = "end_of_turn_confidence_threshold=1&max_turn_silence=10000"


def update(**changes: object) -> str:
    return json.dumps({"type": "UpdateConfiguration", **changes})


async def session(*messages: str | bytes, more: str = "", draining: bool = False) -> Client:
    """A client after the end of its session."""
    query = f"{AUDIO}&{more}" if more else AUDIO
    return await served(*messages, query=query, draining=draining, protocol=assemblyai_protocol)


def turns(client: Client, *, ended: bool = True) -> list[dict[str, Any]]:
    told = [message for message in client.sent if message["type"] == "Turn"]
    return [turn for turn in told if turn["end_of_turn"] is ended]


async def test_a_session_has_turns() -> None:
    client = await session(LOUD, QUIET, KEEP_ALIVE, LOUD, QUIET, TERMINATE)
    begin, end = client.sent[0], client.sent[-1]
    assert (begin["type"], begin["id"], begin["expires_at"]) == ("Begin", "sess_1", 4_102_444_800)
    assert begin["configuration"] == {"model": "demo"}
    assert [(t["turn_order"], t["transcript"]) for t in turns(client)] == [(0, "word"), (1, "word")]
    assert all(t["turn_is_formatted"] and t["utterance"] == "word" for t in turns(client))
    assert [t["end_of_turn_confidence"] for t in turns(client)] == [0.4, 0.4]
    assert client.kinds.count("SpeechStarted") == 2
    assert (end["type"], end["audio_duration_seconds"]) == ("Termination", 4)
    assert client.charged == 4.0


async def test_text_that_may_change_comes_before_the_end_of_its_turn() -> None:
    client = await session(LOUD, LOUD, TERMINATE)
    first = turns(client, ended=False)[0]
    assert (first["transcript"], first["utterance"]) == ("a b", "")
    assert not first["turn_is_formatted"]
    assert [(w["text"], w["word_is_final"]) for w in first["words"]] == [("a", False), ("b", False)]
    (end,) = turns(client)
    assert [w["word_is_final"] for w in end["words"]] == [True]
    assert client.kinds[1:3] == ["SpeechStarted", "Turn"]


async def test_only_whole_turns_come_if_that_is_wanted() -> None:
    client = await session(LOUD, LOUD, QUIET, TERMINATE, more="include_partial_turns=false")
    assert turns(client, ended=False) == []
    assert len(turns(client)) == 1


def test_words_share_the_time_of_their_segment() -> None:
    said = TurnSegment("ten green", 1.0, 1.9, "English")
    open_one = TurnSegment("bottles han", 2.0, 3.1, "English", committed_chars=9, is_final=False)
    words = words_of(Turn(0, (said, open_one), 1.0, 3.1))
    assert [(w["text"], w["start"], w["end"]) for w in words] == [
        ("ten", 1000, 1300),
        ("green", 1400, 1900),
        ("bottles", 2000, 2700),
        ("han", 2800, 3100),
    ]
    assert [w["word_is_final"] for w in words] == [True, True, True, False]


async def test_a_segment_within_a_turn_is_an_utterance() -> None:
    client = await session(LOUD, QUIET, LOUD, QUIET, TERMINATE, more=NEVER_SURE)
    (end,) = turns(client)
    assert end["transcript"] == "word word"
    uttered = [t["utterance"] for t in turns(client, ended=False) if t["utterance"]]
    assert [*uttered, end["utterance"]] == ["word", "word", ""]


async def test_the_client_may_end_a_turn() -> None:
    client = await session(LOUD, FORCE, QUIET, TERMINATE, more=NEVER_SURE)
    (end,) = turns(client)
    assert end["transcript"] == "word"
    assert client.kinds.index("Termination") == len(client.kinds) - 1


async def test_silences_may_change_within_a_session() -> None:
    changed = update(end_of_turn_confidence_threshold=1.0, max_turn_silence=10_000)
    client = await session(changed, LOUD, QUIET, LOUD, QUIET, TERMINATE)
    assert [t["transcript"] for t in turns(client)] == ["word word"]


async def test_what_cannot_change_is_answered_and_the_session_continues() -> None:
    client = await session(update(keyterms_prompt=["Ada"]), LOUD, QUIET, TERMINATE)
    assert client.sent[1] == {
        "type": "Warning",
        "warning_code": 3006,
        "warning": "keyterms_prompt cannot change within a session; open another connection",
    }
    assert len(turns(client)) == 1


async def test_what_has_no_effect_is_said_once() -> None:
    again = update(agent_context="Hello")
    client = await session(again, again, LOUD, QUIET, TERMINATE, more="domain=medical-v1")
    assert client.sent[0]["warnings"] == ["domain has no effect"]
    warned = [message["warnings"] for message in client.sent[1:] if "warnings" in message]
    assert warned == [["agent_context has no effect"]]


async def test_the_language_is_told_if_it_is_to_be_detected() -> None:
    client = await session(LOUD, QUIET, TERMINATE, more="language_detection=true")
    assert turns(client)[0]["language_code"] == "en"
    client = await session(LOUD, QUIET, TERMINATE)
    assert "language_code" not in turns(client)[0]


@pytest.mark.parametrize("text", ["nonsense", '{"type": "Finalize"}', "[" * 8_000, "x" * 9_000])
async def test_a_message_that_is_none_ends_the_session(text: str) -> None:
    with pytest.raises(ProtocolError):
        await session(text)


async def test_a_server_that_leaves_does_not_end_the_session_as_its_client_would() -> None:
    client = await session(LOUD, draining=True)
    assert client.kinds == ["Begin"]
    assert client.went_at == 0  # it left before the audio arrived


# ── at the door ─────────────────────────────────────────────────────────────


async def test_a_session_that_fails_has_the_codes_that_clients_know() -> None:
    front = Front()
    async with front.serving(), front.connect(PATH) as socket:
        assert json.loads(await socket.recv())["type"] == "Begin"
        await socket.send("nonsense")
        said, code, reason = await last_words(socket)
    error = json.loads(said)
    assert (error["type"], error["error_code"], code) == ("Error", 3006, 3006)
    assert error["error"].startswith(reason[:40])


async def test_what_cannot_be_served_is_refused_before_a_session() -> None:
    front = Front(max_sessions=1)
    async with front.serving():
        code, body = await refusal(front, f"{PATH}&redact_pii=true")
        assert (code, body["error_code"]) == (3006, 3006)
        assert body["error"] == "redact_pii is not supported: the model transcribes verbatim"
        code, body = await refusal(front, f"{PATH}&speech_model=other")
        assert (code, body["error"]) == (
            3006,
            "the model 'other' does not exist; served here: demo",
        )
        async with front.connect(PATH):
            await front.processors.opened.acquire()
            async with front.connect(PATH) as full:
                said, code, reason = await last_words(full)
            assert json.loads(said)["error"] == "all 1 sessions are in use"
            assert (code, reason) == (1013, "all 1 sessions are in use; come again in 5 s")


async def test_a_key_is_taken_as_assemblyais_clients_send_it() -> None:
    secret, key = new_key("acme")
    front = Front([key])
    async with front.serving():
        assert (await refusal(front, PATH))[0] == 1008
        address = front.url.replace("http", "ws") + PATH
        for sent, known in ((secret, True), ("wrong", False), ("Bearer", False)):
            headers = {"Authorization": sent}
            async with websockets.connect(address, additional_headers=headers) as socket:
                first = json.loads(await socket.recv())
            assert first["type"] == ("Begin" if known else "Error")
