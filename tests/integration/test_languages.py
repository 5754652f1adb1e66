"""A checkpoint of three languages in a graph: each segment has the spoken language."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import jiwer
import numpy as np
import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.wav import wav_header
from auricle.client import Client, Final
from auricle_testing.server import LIGHT_ENGINE, ROOT, Server, serving
from models.training.languages import codes, language
from tests.dialogue import conversation

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
MODEL = ROOT / "models/demo-en-de-es"
DEADLINE_SECONDS = 240
SAID = {
    "English": ("en-us+f4", "the small cat is under the kitchen table"),
    "German": ("de+f2", "mein Bruder kauft eine Flasche Wasser am Montag"),
    "Spanish": ("es+f2", "el tren viene a las siete de la tarde"),
}
WORD_ERRORS = 0.25
KNOWN = {language(code).name: set(language(code).vocabulary) for code in codes()}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(f"--Common.model={MODEL}", *LIGHT_ENGINE) as running:
        yield running


def spoken(*names: str) -> np.ndarray:
    """Sentences in these languages, each with another voice, with a second of silence between."""
    return conversation([SAID[name] for name in names])


async def finals(server: Server, *names: str, **options: Any) -> list[Final]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        events = [event async for event in Client(server.url).stream(spoken(*names), **options)]
    return [event for event in events if isinstance(event, Final) and event.text]


async def test_each_segment_is_in_the_language_that_is_spoken(server: Server) -> None:
    found = await finals(server, *SAID)
    assert [final.language for final in found] == list(SAID)
    for final in found:
        assert jiwer.wer(SAID[final.language][1], final.text) <= WORD_ERRORS
        # In the letters and case of its dictionary.
        assert set(final.text.split()) <= KNOWN[final.language]


@pytest.mark.parametrize("name", SAID)
async def test_a_language_that_is_given_is_written(server: Server, name: str) -> None:
    (final,) = await finals(server, name, language=name)
    assert final.language == name
    assert jiwer.wer(SAID[name][1], final.text) <= WORD_ERRORS


async def test_a_language_that_is_given_is_told_whatever_is_heard(server: Server) -> None:
    found = await finals(server, "German", language="es")
    assert {final.language for final in found} == {"Spanish"}


async def test_each_segment_is_in_one_of_the_languages_that_are_named(server: Server) -> None:
    found = await finals(server, *SAID, languages=["de", "es"])
    assert [final.language for final in found][-2:] == ["German", "Spanish"]
    assert {final.language for final in found} <= {"German", "Spanish"}


def test_a_recordings_segments_are_in_the_languages_that_are_named(server: Server) -> None:
    form = {
        "model": "demo-en-de-es",
        "languages[]": ["de", "es"],
        "response_format": "verbose_json",
    }
    pcm = spoken("German", "Spanish").tobytes()
    answer = httpx.post(
        f"{server.url}/v1/audio/transcriptions",
        data=form,
        files={"file": ("said.wav", wav_header("pcm_s16le", SAMPLE_RATE, len(pcm)) + pcm)},
        timeout=DEADLINE_SECONDS,
    )
    words = set(answer.raise_for_status().json()["text"].split())
    assert words <= KNOWN["German"] | KNOWN["Spanish"]
    assert words & KNOWN["German"] and words & KNOWN["Spanish"]
