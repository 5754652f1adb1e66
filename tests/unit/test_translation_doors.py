"""Translations at the doors: asked for and told as each protocol has it, refused where none are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets

from auricle.client.events import Translation as ClientTranslation
from auricle.client.events import typed
from auricle.errors import ProtocolError
from auricle.frontend.stream import protocol, replies
from auricle.frontend.stream.parsing import parse_start
from auricle.messages import Translation
from tests.unit.front import Front

pytestmark = pytest.mark.unit


async def test_a_deployment_without_a_translator_refuses_sessions() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        url = front.url.replace("http", "ws") + "/v1/audio/stream"
        async with websockets.connect(url) as socket:
            start = {"type": "start", "sample_rate": 16_000, "translate": ["es"]}
            await socket.send(json.dumps(start))
            told = json.loads(await socket.recv())
    assert (told["type"], told["code"], told["param"]) == (
        *("error", "unsupported_value", "translate"),
    )
    assert "translate_model" in told["message"]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"translate": ["Spanish"]}, "translate", "'Spanish' is not an ISO 639-1 code"),
        ({"translate": ["es", "es"]}, "translate", "twice"),
        ({"translate": ["es", "de", "fr", "it", "pt"]}, "translate", "at most 4"),
        ({"translate": ["es"], "terms": {"de": {"a": "b"}}}, "terms", "nothing is translated"),
        ({"translate": ["es"], "terms": {"es": {"a": " "}}}, "terms", "empty term"),
        ({"translate": ["es"], "terms": {"es": {"a": "x" * 101}}}, "terms", "101 characters"),
    ],
)
def test_what_is_wrong_with_a_start_is_named(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=said) as refused:
        parse_start(json.dumps({"type": "start", "sample_rate": 16_000, **fields}))
    assert refused.value.param == param


def test_translations_are_told_as_the_client_reads_them() -> None:
    told = protocol.encode(replies.translation_reply(Translation(3, "es", "una", " casa")))
    assert json.loads(told) == {
        **{"type": "translation", "segment": 3, "language": "es"},
        **{"committed": "una", "partial": " casa", "final": False},
    }
    assert typed(json.loads(told)) == ClientTranslation(3, "es", "una", " casa", False)
    missing = Translation(3, "es", "una", final=True, missing="unavailable")
    told = protocol.encode(replies.translation_reply(missing))
    assert typed(json.loads(told)) == ClientTranslation(3, "es", "una", "", True, "unavailable")
