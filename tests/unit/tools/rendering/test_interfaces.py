"""The published descriptions of `/v1/audio/stream` for other languages match the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import numpy as np
import pytest

from auricle.core.errors import ProtocolError
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream import start as parsing
from auricle.protocol import stream
from auricle.tools.rendering.interfaces import declarations, interfaces
from auricle_testing.server import ROOT
from tests import browser
from tests.fakes.stream_server import Connection, final, serving

pytestmark = pytest.mark.unit
DOCUMENT = json.loads((ROOT / "docs/asyncapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
RESUME = stream.Resume("token", 0)
REPLIES: list[stream.Reply] = [
    stream.Ready("s", "demo", 640, resume=RESUME),
    stream.Ready("s", "demo", 640),
    stream.SpeechStarted(1, resume=RESUME),
    stream.SpeechStopped(1, resume=RESUME),
    stream.TurnPaused(1, 0.25, resume=RESUME),
    stream.TurnResumed(1, resume=RESUME),
    stream.Checkpoint(resume=RESUME),
    stream.Partial(0, "a", "b", 1, "English", resume=RESUME),
    stream.Final(0, "a", 0, 1, "English", resume=RESUME),
    stream.Words(0, (stream.Word("a", "a ", 0, 1),), "aligned", resume=RESUME),
    stream.Words(0, (stream.Word("a", "a ", 0, 1, 0.9),), "aligned", None, 0.9),
    stream.Words(0, (), None, "unavailable"),
    stream.Speakers(0, (stream.SpeakerPart(1, 0, 1, "a"),), "aligned", None, resume=RESUME),
    stream.Speakers(0, (), None, "unavailable"),
    stream.Translation(0, "es", "una", " casa", False, resume=RESUME),
    stream.Translation(0, "es", "una", "", True, "unavailable"),
    stream.Done("a", stream.Usage()),
    stream.GoingAway(1, "a", resume=RESUME),
    stream.Error("protocol", "no", 0.0, "chunk_ms"),
    stream.Error("overloaded", "no", 5.0),
]


def fits(message: object, name: str) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    return jsonschema.Draft202012Validator(schema).is_valid(message)


@pytest.mark.parametrize("path", interfaces(), ids=str)
def test_the_committed_files_are_current(path: Path) -> None:
    assert (ROOT / path).read_text() == interfaces()[path], "run: make interfaces"


def test_every_reference_in_the_document_leads_somewhere() -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            below = [references(value) for value in node.values()]
            return {node["$ref"]} if "$ref" in node else set().union(*below)
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    found = references(DOCUMENT)
    assert found
    for reference in found:
        node = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_every_message_of_the_server_is_as_described() -> None:
    assert {type(reply) for reply in REPLIES} == set(get_args(stream.Reply))
    for reply in REPLIES:
        name = f"{type(reply).__name__}Event"
        message = json.loads(protocol.encode(reply))
        assert fits(message, name), name
        assert (
            not SCHEMAS[name]["properties"].keys() - msgspec.structs.asdict(reply).keys() - {"type"}
        )


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({}, True),
        ({"sample_rate": 4_000}, True),
        ({"sample_rate": 3_999}, False),
        ({"sample_rate": 192_000}, True),
        ({"sample_rate": 192_001}, False),
        ({"sample_rate": "fast"}, False),
        ({"encoding": "pcm_alaw"}, True),
        ({"encoding": "opus"}, False),
        ({"encoding": "log_mel", "feature_dtype": "float16"}, True),
        ({"encoding": "log_mel", "feature_dtype": "float8"}, False),
        ({"language": None, "chunk_ms": None}, True),
        ({"language": "x" * 32}, True),
        ({"language": "x" * 33}, False),
        ({"languages": ["de", "es", "en", "fr"]}, True),
        ({"languages": ["de", "es", "en", "fr", "it"]}, False),
        ({"languages": ["x" * 33]}, False),
        ({"context": "x" * 2_000}, True),
        ({"context": "x" * 2_001}, False),
        ({"chunk_ms": 80}, True),
        ({"chunk_ms": 79}, False),
        ({"chunk_ms": 10_000}, True),
        ({"chunk_ms": 10_001}, False),
        ({"partials": "no"}, False),
        ({"words": True}, True),
        ({"words": "yes"}, False),
        ({"endpointing": {"threshold": 0.05, "min_silence_ms": 100, "pre_roll_ms": 0}}, True),
        ({"endpointing": {"threshold": 0.95, "min_silence_ms": 10_000}}, True),
        ({"endpointing": {"threshold": 0.04}}, False),
        ({"endpointing": {"min_silence_ms": 99}}, False),
        ({"endpointing": {"pre_roll_ms": 2_001}}, False),
        ({"endpointing": {"silence": 1}}, False),
        ({"resume": {"token": "t", "from_sample": 0}}, True),
        ({"resume": {"token": "t"}}, False),
        ({"translate": ["es", "de"], "terms": {"es": {"boat": "barco"}}}, True),
        ({"translate": []}, True),
        ({"translate": "es"}, False),
        ({"translate": ["Spanish"]}, False),
        ({"translate": ["es", "es"]}, False),
        ({"translate": ["es", "de", "fr", "it", "pt"]}, False),
        ({"translate": ["es"], "terms": {"es": {"boat": ""}}}, False),
        ({"translate": ["es"], "terms": {"es": {"boat": "x" * 101}}}, False),
        ({"translate": ["es"], "terms": {"es": ["boat"]}}, False),
        ({"mood": "good"}, False),
    ],
)
def test_a_start_that_the_document_allows_is_one_that_the_server_takes(
    fields: dict[str, Any], right: bool
) -> None:
    message = {"type": "start", "sample_rate": 16_000} | fields
    assert fits(message, "StartMessage") == right
    try:
        parsing.parse_start(json.dumps(message))
        taken = True
    except ProtocolError:
        taken = False
    assert taken == right


def test_types_say_what_may_be_left_out_and_what_a_field_may_be() -> None:
    schema = {
        "description": "Two lines\n\nof text.",
        "required": ["kind"],
        "properties": {
            "kind": {"const": "a"},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "other": {"$ref": "#/components/schemas/Other"},
            "law": {"type": "string", "enum": ["u", "a"]},
            "some": {"type": "array", "items": {"$ref": "#/components/schemas/Other"}},
        },
    }
    assert declarations({"Thing": schema}, {"Any": ["Thing", "Other"]}) == (
        "/**\n * Two lines\n *\n * of text.\n */\nexport interface Thing {\n"
        '  kind: "a";\n  size?: number | null;\n  other?: Other;\n  law?: "u" | "a";\n'
        "  some?: readonly Other[];\n}\n"
        "\nexport type Any = Thing | Other;\n"
    )


@browser.needs_node
async def test_the_browsers_client_resumes_and_tells_each_event_once(tmp_path: Path) -> None:
    samples = np.arange(4_000, dtype="<i2").tobytes()

    async def first(connection: Connection) -> None:
        assert await connection.start() == {"type": "start", "sample_rate": 16_000}
        await connection.ready(0)
        assert await connection.audio() == samples
        await connection.say("final", 2_500, **final(0, "one"))
        await connection.say("checkpoint", 2_500)
        await connection.socket.close(1012)  # a cut may lose messages that were sent before it

    async def second(connection: Connection) -> None:
        assert connection.path == "/v1/audio/stream?refusal_message=true&resume=true"
        resume = {"token": "t2500", "from_sample": 2_500}
        start = {"type": "start", "sample_rate": 16_000, "resume": resume}
        assert await connection.start() == start
        await connection.ready(2_500)
        assert await connection.audio() == samples[2 * 2_500 :]
        await connection.say("final", 3_900, **final(1, "two"))
        await connection.say("done", text="two", usage={})

    async with serving(first, second) as url:
        events = await browser.transcribed(url, samples, tmp_path)
    assert [e["type"] for e in events] == ["ready", "final", "final", "done"]
    assert [e["text"] for e in events[1:]] == ["one", "two", "two"]


def test_the_browsers_client_knows_the_servers_messages_only() -> None:
    known = {
        schema["properties"]["type"]["const"]
        for schema in SCHEMAS.values()
        if "type" in schema["properties"]
    }
    for name in ("auricle.js", "captions.js", "transcript.js"):
        named = set(re.findall(r'type === "(\w+)"', (browser.CLIENT / name).read_text()))
        assert named and named <= known
