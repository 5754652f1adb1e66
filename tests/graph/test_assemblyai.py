"""AssemblyAI's streaming protocol on the real graph, with the official client, unmodified."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import pytest

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server
from tests.pcm import PACKET, pcm

streaming = pytest.importorskip("assemblyai.streaming.v3", reason="run make setup-dev")

pytestmark = pytest.mark.end_to_end
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
SECONDS = 120.0
EVENTS = streaming.RealTimeEvents


class Listener:
    """An official client and its events."""

    def __init__(self, server: Server) -> None:
        options = streaming.RealTimeTranscriberOptions(
            api_host=server.url.replace("http", "ws"),
            api_key="any",  # the graph has no keys
            connect_timeout=SECONDS,
            terminate_timeout=SECONDS,
        )
        self.client = streaming.AsyncRealTimeTranscriber(options)
        self.sent: list[Any] = []
        self._news = asyncio.Event()
        for event in EVENTS:
            self.client.on(event, self._hear)

    def _hear(self, _client: object, event: Any) -> None:
        self.sent.append(event)
        self._news.set()

    async def send(self, audio: bytes) -> None:
        for start in range(0, len(audio), PACKET):
            await self.client.stream(audio[start : start + PACKET])

    async def heard(self, condition: Callable[[], object]) -> None:
        """Wait until the events fulfil the condition."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def ended(self) -> None:
        """Wait until a turn has ended."""
        await self.heard(lambda: any(turn.end_of_turn for turn in self.turns))

    @property
    def turns(self) -> list[Any]:
        return [event for event in self.sent if isinstance(event, streaming.TurnEvent)]


@asynccontextmanager
async def connected(server: Server, **options: Any) -> AsyncIterator[Listener]:
    listener = Listener(server)
    given: dict[str, Any] = {"sample_rate": 16_000} | options
    try:
        await listener.client.connect(streaming.RealTimeParameters(**given))
        yield listener
    finally:  # also after a failed `connect`: its tasks do not end by themselves
        await listener.client.disconnect(terminate=True)


async def own_words(server: Server, name: str) -> str:
    samples = recordings.samples(name)
    events = [event async for event in stream_file(server.url, samples, live=False)]
    return str(events[-1]["text"])


async def test_turns_have_the_words_of_our_own_protocol(server: Server) -> None:
    """Two recordings with a silence between them; then the client ends a turn itself."""
    own = [await own_words(server, name) for name in ("hello", "station")]
    audio = pcm("hello", silence_seconds=4.0) + pcm("station")
    async with connected(server, format_turns=True, min_turn_silence=700) as listener:
        await listener.send(audio)
        await listener.ended()
        await listener.client.force_endpoint()
        await listener.client.set_params(
            streaming.RealTimeSessionParameters(min_turn_silence=900, keyterms_prompt=["Ada"])
        )
    told = listener.sent
    assert isinstance(told[0], streaming.BeginEvent)
    assert isinstance(told[-1], streaming.TerminationEvent)
    assert told[-1].audio_duration_seconds == round(len(audio) / 32_000)
    (warning,) = [event for event in told if isinstance(event, streaming.WarningEvent)]
    assert warning.warning.startswith("keyterms_prompt cannot change within a session")
    ends = [turn for turn in listener.turns if turn.end_of_turn]
    assert " ".join(turn.transcript for turn in ends) == " ".join(own)
    assert [turn.turn_order for turn in ends] == list(range(len(ends)))
    assert all(turn.turn_is_formatted for turn in ends)
    for turn in listener.turns:
        assert " ".join(word.text for word in turn.words) == turn.transcript
        assert [w.start for w in turn.words] == sorted(w.start for w in turn.words)
    assert any(not turn.end_of_turn for turn in listener.turns)
    started = [event for event in told if isinstance(event, streaming.SpeechStartedEvent)]
    assert len(started) == len(ends)


async def test_the_client_gets_the_reason_of_a_refusal(server: Server) -> None:
    async with connected(server, redact_pii=True) as listener:
        await listener.heard(lambda: listener.sent)
    (error,) = listener.sent
    assert (error.code, str(error)) == (
        3006,
        "redact_pii is not supported: the model transcribes verbatim",
    )


async def test_the_served_model_replaces_one_of_assemblyai(server: Server) -> None:
    async with connected(server, speech_model="u3-rt-pro") as listener:
        await listener.send(pcm("hello"))
    assert listener.turns


async def test_the_example_in_the_docs_prints_the_words(server: Server) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs/assemblyai.md").read_text())
    names = {name: getattr(streaming, name) for name in streaming.__all__}
    names |= {"host": server.url.replace("http", "ws"), "pcm": pcm("hello")}
    printed = io.StringIO()
    async with asyncio.timeout(SECONDS):
        with redirect_stdout(printed):
            await asyncio.to_thread(exec, example, names)
    assert " ".join(printed.getvalue().split()) == await own_words(server, "hello")
