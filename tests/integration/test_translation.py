"""Live translation on a real graph, with the demo translator in vLLM.

transformers decodes the transcript, because it starts in a fraction of vLLM's time: the translate
pool does not depend on the engine.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import Float32
from auricle.client import Client, Final, Partial, StreamEvent, Translation
from auricle_testing import recordings
from auricle_testing.commands import auricle
from auricle_testing.launcher import Launcher
from auricle_testing.server import (
    ANSWER_SECONDS,
    LIGHT_ENGINE,
    READY_SECONDS,
    ROOT,
    Server,
    eventually,
    free_port,
    serving,
)
from models.training.translate.reference import Translator

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
DEADLINE_SECONDS = 240
MODEL = ROOT / "models/demo-translate"
RECORDING = "kitchen"
SPEECH = recordings.samples(RECORDING)
KINDS = {"Processor": "processor", "TranslateWorker": "translate%5Fworker"}
Ended = dict[tuple[int, str], Translation]


@pytest.fixture(scope="module")
def graph() -> Iterator[Server]:
    options = (
        f"--Common.translate_model={MODEL}",
        f"--TranslateWorker.system_port={free_port()}",
        "--Common.load_report_seconds=0.5",
        # On a busy machine an answer may take many seconds.
        "--Processor.translation_deadline_seconds=60",
        *LIGHT_ENGINE,
    )
    with serving(*options, graph="graphs.e_pd_translate:Frontend") as running:
        yield running


@pytest.fixture
async def server(graph: Server) -> AsyncIterator[Server]:
    """The graph, after it has recovered from the test and discovery has dropped dead processes."""
    launcher = Launcher(graph)
    yield graph
    for component, kind in KINDS.items():
        await eventually(lambda name=component: launcher.settled(name, 1), READY_SECONDS)
        await eventually(lambda name=kind: instances(graph, name) == 1, READY_SECONDS)


def instances(graph: Server, kind: str) -> int:
    """The number of listed processes of a kind; dead ones remain for a while."""
    return len([*graph.discovery.rglob(f"*{kind}%2Falive%2F*")])


async def streamed(server: Server, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(SPEECH, **options)]


def texts(events: list[StreamEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Final) and event.text]


def ended(events: list[StreamEvent]) -> Ended:
    """The last event of each translation; checks that committed text stays and nothing follows."""
    committed: dict[tuple[int, str], str] = {}
    found: Ended = {}
    for event in events:
        if isinstance(event, Translation):
            key = event.segment, event.language
            assert key not in found
            assert event.committed.startswith(committed.get(key, ""))
            committed[key] = event.committed
            if event.final:
                assert event.partial == ""
                found[key] = event
    segments = [event.segment for event in events if isinstance(event, Final) and event.text]
    assert {segment for segment, _ in found} == set(segments)
    return found


async def test_a_final_is_followed_by_what_the_model_alone_makes_of_it(server: Server) -> None:
    plain = await streamed(server, partials=False)
    events = await streamed(server, partials=False, translate=["es"])
    assert texts(events) == texts(plain) and texts(plain)
    first = min(event.segment for event in events if isinstance(event, Final) and event.text)
    told = ended(events)[first, "es"]
    assert told.missing is None
    # Earlier segments are the context for the translation of later ones.
    assert told.committed.strip() == Translator(MODEL).translated(texts(events)[0]).strip()
    assert not [event for event in plain if isinstance(event, Translation)]


async def test_a_live_session_is_told_words_before_its_segments_end(server: Server) -> None:
    """The session has translated words before its segments end.

    Each second of audio is sent after the text of the previous second, and the last one after the
    first words of a translation.
    """
    heard, told = asyncio.Event(), asyncio.Event()

    async def speech() -> AsyncIterator[Float32]:
        for at in range(0, len(SPEECH) - SAMPLE_RATE, SAMPLE_RATE):
            yield SPEECH[at : at + SAMPLE_RATE]
            await heard.wait()
            heard.clear()
        await told.wait()
        yield SPEECH[len(SPEECH) - len(SPEECH) % SAMPLE_RATE :]

    events: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in Client(server.url).stream(speech(), translate=["es"]):
            events.append(event)
            if isinstance(event, Partial | Final):
                heard.set()
            if isinstance(event, Translation) and not event.final:
                told.set()
    assert all(event.committed and event.missing is None for event in ended(events).values())


async def test_on_shared_cores_text_comes_before_its_translation(server: Server) -> None:
    translator, decoder = (server.component(name) for name in ("TranslateWorker", "PdWorker"))
    assert translator.nice() > decoder.nice()
    # vLLM computes in a process of its own.
    assert all(process.nice() > decoder.nice() for process in translator.children(recursive=True))


async def test_what_cannot_be_translated_is_named_and_costs_no_text(server: Server) -> None:
    """An unsupported language, and the spoken language itself."""
    events = await streamed(server, partials=False, translate=["fr", "en", "es"])
    assert texts(events) == texts(await streamed(server, partials=False))
    missing: dict[str, set[str | None]] = {}
    for (_, language), event in ended(events).items():
        missing.setdefault(language, set()).add(event.missing)
    assert missing == {"fr": {"unsupported_value"}, "en": {"same_language"}, "es": {None}}


def test_clients_are_told_the_languages(graph: Server) -> None:
    entry = httpx.get(f"{graph.url}/v1/models", timeout=ANSWER_SECONDS).json()["data"][0]
    assert entry["capabilities"]["translate"] == ["es"]


async def test_a_recording_is_translated(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as client:
        answer = await client.post(
            "/v1/audio/translations",
            files={"file": recordings.path(RECORDING).read_bytes()},
            data={"model": "demo", "to_language": "es"},
        )
        refused = await client.post(
            "/v1/audio/translations",
            files={"file": recordings.path(RECORDING).read_bytes()},
            data={"model": "demo", "to_language": "fr"},
        )
    assert answer.status_code == 200, answer.text
    words = answer.json()["text"].split()
    assert len(words) > 5 and "cocina" in words
    assert refused.status_code == 400 and "fr" in refused.text


def test_the_command_translates_many_recordings(server: Server, tmp_path: Path) -> None:
    names = (RECORDING, "hello")
    done = auricle(
        *("transcribe", *(str(recordings.path(name)) for name in names), "--url", server.url),
        *("--translate", "es", "--format", "txt,srt", "--out", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert "2 transcribed, 0 failed" in done.stderr
    results = {path.name for path in tmp_path.iterdir()}
    assert results == {f"{name}.es.{form}" for name in names for form in ("txt", "srt")}
    assert "cocina" in (tmp_path / f"{RECORDING}.es.txt").read_text()
    assert "-->" in (tmp_path / "hello.es.srt").read_text()


@pytest.mark.parametrize("component", ["Processor", "TranslateWorker"])
async def test_nothing_is_doubled_or_lost_unsaid_when_a_process_dies(
    server: Server, component: str
) -> None:
    events: list[StreamEvent] = []
    process, dead = server.component(component), False
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in Client(server.url).stream(SPEECH, live=True, translate=["es"]):
            events.append(event)
            if isinstance(event, Translation) and event.committed and not dead:
                process.send_signal(signal.SIGKILL)
                dead = True
    assert dead
    assert all(event.committed or event.missing for event in ended(events).values())
    assert " ".join(texts(events)) == recordings.words(RECORDING)
