"""Live translation on the graph with a translate pool: two workers, one of which is killed.

The model has random weights, so what it says means nothing; but it depends on every word that it is
given, so a word that is lost, doubled or taken back shows.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auricle.client import Client, Final, Partial, StreamEvent, Translation
from tests import recordings
from tests.server import Server, serving
from tests.translators import random_translator

pytestmark = pytest.mark.end_to_end
DEADLINE_SECONDS = 240
SPEECH = recordings.minute()[: 30 * 16_000]
Key = tuple[int, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path: Path = tmp_path_factory.mktemp("translator")
    random_translator(path)
    options = (
        f"--Common.translate_model={path}",
        "--TranslateWorker.replicas=2",
        "--Processor.translation_deadline_seconds=60",
        "--Common.load_report_seconds=0.5",
    )
    with serving(*options, graph="graphs.e_pd_translate:Frontend") as running:
        yield running


async def streamed(server: Server, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(SPEECH, **options)]


def texts(events: list[StreamEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Final) and event.text]


def ended(events: list[StreamEvent]) -> dict[Key, Translation]:
    """The last event of each translation; nothing was taken back before, or told after."""
    committed: dict[Key, str] = {}
    found: dict[Key, Translation] = {}
    for event in events:
        if isinstance(event, Translation):
            key = event.segment, event.language
            assert key not in found
            assert event.committed.startswith(committed.get(key, ""))
            committed[key] = event.committed
            if event.final:
                assert event.partial == ""
                found[key] = event
    return found


def all_translated(events: list[StreamEvent], *languages: str) -> bool:
    segments = [event.segment for event in events if isinstance(event, Final) and event.text]
    found = ended(events)
    return found.keys() == {(one, language) for one in segments for language in languages} and all(
        event.committed and event.missing in (None, "length") for event in found.values()
    )


async def test_text_is_translated_as_it_is_spoken_and_is_as_without(server: Server) -> None:
    plain = await streamed(server, partials=False)
    events = await streamed(server, partials=False, translate=["es", "de"])
    assert texts(events) == texts(plain) and texts(plain)
    assert all_translated(events, "es", "de")
    assert not [event for event in plain if isinstance(event, Translation)]


async def test_a_live_session_is_told_committed_words_before_the_segment_ends(
    server: Server,
) -> None:
    events = await streamed(server, live=True, translate=["es"])
    assert all_translated(events, "es")
    assert any(isinstance(event, Translation) and not event.final for event in events)
    assert any(isinstance(event, Partial) for event in events)


async def test_the_same_text_has_the_same_translation(server: Server) -> None:
    first, again = await asyncio.gather(
        *(streamed(server, partials=False, translate=["es"]) for _ in range(2))
    )
    assert ended(first) == ended(again)


async def test_what_cannot_be_translated_is_named_and_costs_no_text(server: Server) -> None:
    """A language that the model lacks, and the one that is spoken."""
    events = await streamed(server, partials=False, translate=["fr", "en", "es"])
    assert texts(events) == texts(await streamed(server, partials=False))
    missing = {
        language: {e.missing for (_, code), e in ended(events).items() if code == language}
        for language in ("fr", "en")
    }
    assert missing == {"fr": {"unsupported_value"}, "en": {"same_language"}}


@pytest.mark.parametrize("component", ["TranslateWorker", "Processor"])
async def test_nothing_is_lost_or_doubled_when_a_process_dies(
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
    assert dead and all_translated(events, "es")
