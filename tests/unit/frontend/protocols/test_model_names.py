"""Names of models that clients send although they are another service's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from auricle.core.errors import UnknownModel
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.deepgram.flux import flux_protocol
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.protocols.realtime.socket import RealtimeWorker
from tests.fakes.deepgram import AUDIO, CLOSE, served
from tests.fakes.front import Front
from tests.fakes.tcp_port import frontend
from tests.fakes.virtual_time import run

pytestmark = pytest.mark.unit
TERMINATE = '{"type": "Terminate"}'


def warning(name: str) -> str:
    return f"model '{name}' is not served here; demo has replaced it"


def test_the_served_model_replaces_those_that_sdks_request_by_default() -> None:
    front = Front(model_aliases=("mine",)).frontend
    assert front.check_model("nova-3") == (warning("nova-3"),)
    for name in (None, "demo", "mine"):
        assert front.check_model(name) == ()


@pytest.mark.parametrize(
    ("name", "model_names"),
    [
        ("nova-33", "default"),
        ("gpt-4o-transcribe-diarize", "default"),
        ("", "default"),
        ("nova-3", "strict"),
    ],
)
def test_other_names_are_refused(name: str, model_names: str) -> None:
    front = Front(model_names=model_names).frontend
    with pytest.raises(UnknownModel, match="served here: demo"):
        front.check_model(name)


@pytest.mark.parametrize(
    ("protocol", "query", "end"),
    [
        (listen_protocol, f"{AUDIO}&model=nova-3", CLOSE),
        (flux_protocol, f"{AUDIO}&model=flux-general-en", CLOSE),
        (assemblyai_protocol, "sample_rate=16000&speech_model=u3-pro", TERMINATE),
    ],
)
def test_a_warning_names_the_model_that_is_used(protocol: Any, query: str, end: str) -> None:
    sent = run(served(end, query=query, protocol=protocol)).sent
    assert warning(query.rpartition("=")[2]) in json.dumps(sent)


def test_a_realtime_session_is_warned_too() -> None:
    async def updated() -> dict[str, Any]:
        async def incoming() -> AsyncIterator[dict[str, Any]]:
            given = {"audio": {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}}
            yield {"type": "session.update", "session": given}

        (event,) = [event async for event in RealtimeWorker(frontend()).serve(incoming())]
        return event

    event = run(updated())
    assert event["warnings"] == [warning("gpt-4o-transcribe")]
    assert event["session"]["audio"]["input"]["transcription"]["model"] == "gpt-4o-transcribe"
