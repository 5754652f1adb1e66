"""Sessions of `/v2/listen`: options, handshakes, and sessions with a fake processor."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from auricle.core.errors import BadRequest, ProtocolError
from auricle.frontend.protocols.deepgram.flux import FluxOptions, flux_protocol, parse_flux_options
from tests.fakes.deepgram import AUDIO, CLOSE, LOUD, QUIET, Client, refusal, served
from tests.fakes.flux import FORCE
from tests.fakes.front import Front, last_words

pytestmark = pytest.mark.unit
GIVEN = {"encoding": "linear16", "sample_rate": "16000"}


def parsed(**options: object) -> FluxOptions:
    return parse_flux_options(urlencode({**GIVEN, **options}, doseq=True), 500)


async def flux(*messages: str | bytes, query: str = AUDIO) -> Client:
    """A client after the end of its session; checks that message numbers are consecutive."""
    client = await served(*messages, query=query, protocol=flux_protocol)
    assert [message["sequence_id"] for message in client.sent] == list(range(len(client.sent)))
    return client


def events(client: Client) -> list[str]:
    return [message.get("event", message["type"]) for message in client.sent]


async def test_a_session_has_turns() -> None:
    client = await flux(LOUD, QUIET, LOUD, QUIET, CLOSE)
    assert events(client)[0] == "Connected"
    assert events(client).count("StartOfTurn") == events(client).count("EndOfTurn") == 2
    assert events(client)[-1] == "EndOfTurn"
    assert {message["request_id"] for message in client.sent} == {"sess_1"}


async def test_the_client_may_end_a_turn() -> None:
    client = await flux(LOUD, FORCE, QUIET, CLOSE, query=f"{AUDIO}&eot_threshold=1.0")
    (end,) = [message for message in client.sent if message.get("event") == "EndOfTurn"]
    assert end["trigger"] == "manual"


async def test_thresholds_may_change_within_a_session() -> None:
    thresholds = {"eot_threshold": 0.9, "eager_eot_threshold": 0.5}
    configure = {"type": "Configure", "thresholds": thresholds}
    client = await flux(json.dumps(configure), LOUD, QUIET, CLOSE)
    assert client.sent[1]["type"] == "ConfigureSuccess"
    assert client.sent[1]["thresholds"] == {
        "eot_threshold": 0.9,
        "eager_eot_threshold": 0.5,
        "eot_timeout_ms": 5000,
    }
    assert "EagerEndOfTurn" in events(client)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            {"thresholds": {"eot_threshold": 2.0}},
            "eot_threshold 2.0 cannot be used: it must be a number from 0.5 to 1",
        ),
        ({"thresholds": {"eager_eot_threshold": 0.8}}, "eager_eot_threshold (0.8) is above"),
        (
            {"thresholds": {"eot_timeout_ms": 1}},
            "eot_timeout_ms 1 cannot be used: it must be a whole number from 500",
        ),
        ({"keyterms": ["Ada"]}, "keyterms cannot change within a session"),
    ],
)
async def test_what_cannot_change_is_answered_and_the_session_continues(
    wanted: dict[str, Any], said: str
) -> None:
    client = await flux(json.dumps({"type": "Configure", **wanted}), LOUD, QUIET, CLOSE)
    assert client.sent[1]["type"] == "ConfigureFailure"
    assert client.sent[1]["description"].startswith(said)
    assert "EndOfTurn" in events(client)


async def test_what_has_no_effect_is_said_at_once() -> None:
    client = await flux(CLOSE, query=f"{AUDIO}&language_hint=en&tag=x")
    assert [message.get("description") for message in client.sent] == [
        None,
        "language_hint has no effect",
        "tag has no effect",
    ]


async def test_a_message_that_is_none_ends_the_session() -> None:
    with pytest.raises(ProtocolError, match=r"not a message that is supported \(ForceEndTurn,"):
        await flux('{"type": "Finalize"}')


async def test_a_session_that_fails_says_why_in_a_message_of_its_row() -> None:
    front = Front()
    async with front.serving(), front.connect(f"/v2/listen?{AUDIO}") as socket:
        connected = json.loads(await socket.recv())
        await socket.send("nonsense")
        said, code, reason = await last_words(socket)
    error = json.loads(said)
    assert (connected["sequence_id"], error["sequence_id"]) == (0, 1)
    assert (error["type"], error["code"], code) == ("Error", "protocol", 1008)
    assert reason.startswith(error["description"][:40])


async def test_options_that_cannot_be_served_are_refused_before_a_session() -> None:
    front = Front()
    async with front.serving():
        code, body = await refusal(front, f"/v2/listen?{AUDIO}&eot_threshold=7")
        assert (code, body["code"]) == (1008, "unsupported_value")
        assert body["description"] == (
            "eot_threshold '7' cannot be used: it must be a number from 0.5 to 1"
        )
        _, body = await refusal(front, f"/v2/listen?{AUDIO}&model=flux-x")
        assert body["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "opus"}, "encoding 'opus' cannot be used"),
        ({"eot_threshold": "high"}, "it must be a number from 0.5 to 1"),
        ({"eot_threshold": "0.0"}, "eot_threshold '0.0' cannot be used: it must be a number"),
        ({"eager_eot_threshold": "0.95"}, "it must be a number from 0.3 to 0.9"),
        ({"eager_eot_threshold": "0.8"}, r"eager_eot_threshold \(0.8\) is above eot_threshold"),
        ({"eot_timeout_ms": "100"}, "it must be a whole number from 500 to 60000"),
        ({"numerals": "true"}, "numerals is not supported: the model writes numbers"),
        ({"interim_results": "true"}, "interim_results is not supported; supported: .*keyterm"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parsed(**options)


def test_options_are_taken() -> None:
    options = parsed(eot_threshold=0.8, eager_eot_threshold=0.5, eot_timeout_ms=900, keyterm="Ada")
    assert (options.policy.end_ms, options.policy.eager_ms) == (857, 214)
    assert (options.silence, options.context, options.partials) == (214, "Ada", True)
