"""Whisper in a graph with each engine: languages, translation, prompts and scores in the APIs.

Its random checkpoint has the same output as transformers' own model, which gives the expected
answers.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import websockets

from auricle.audio.pcm import to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.client import AuricleError, Client, Final, Partial, StreamEvent, Translation
from auricle.core.aio import cancelled
from auricle.dynamo import Runtime
from auricle.launcher.config import load_config, settings_for
from auricle.tools.load_generation.speakers import LoadInput, SpeakerGroup, SpeakerPools
from auricle_testing import recordings
from auricle_testing.checkpoints.whisper import (
    Stock,
    answers_that_end,
    random_english_whisper,
    random_whisper,
)
from auricle_testing.replicas import used
from auricle_testing.server import (
    ANSWER_SECONDS,
    LIGHT_ENGINE,
    ROOT,
    Server,
    eventually,
    serving,
)

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
CONFIG = "configs/whisper.yaml"
DEADLINE_SECONDS = 240
SPOKEN = "kitchen"
MODEL = "whisper"
# As transformers has it.
PUBLISHED = (
    "--Processor.padding=full",
    "--EncodeWorker.compute_type=float32",
    "--Processor.min_tokens_per_second=0",
)


@dataclass(frozen=True)
class Whisper:
    """A graph, and the stock model for its expected output."""

    server: Server
    model: Path
    prompt: PromptFormat
    stock: Stock

    def text(self, language: str, *, translating: bool = False, context: str = "") -> str:
        """The text of the recording in this language (a name)."""
        prompt = self.prompt.translating() if translating else self.prompt
        head, tail = prompt.head(context), prompt.tail(language)
        tokens = self.stock.tokens(recordings.samples(SPOKEN), head, tail)
        return prompt.answer(tuple(tokens), language)[1]

    def language(self, *among: str) -> str:
        """The language that it detects, among the given names if there are any."""
        first = self.stock.logits(recordings.samples(SPOKEN), (), self.prompt.tail(None))[0]
        tokens = self.prompt.language_tokens(among)
        return self.prompt.language_of(max(tokens, key=lambda token: float(first[token])))

    def post(self, way: str = "transcriptions", /, **fields: Any) -> httpx.Response:
        """Transcribe the recording as one segment."""
        return httpx.post(
            f"{self.server.url}/v1/audio/{way}",
            files={"file": ("said.flac", recordings.path(SPOKEN).read_bytes())},
            data={"model": MODEL, "chunking_strategy": "none", **fields},
            timeout=DEADLINE_SECONDS,
        )

    def verbose(self, way: str = "transcriptions", /, **fields: Any) -> dict[str, Any]:
        """The same in the format `verbose_json`."""
        answer = self.post(way, response_format="verbose_json", **fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def streamed(self, **options: Any) -> list[StreamEvent]:
        """The events of the recording in a live session."""
        pcm = recordings.samples(SPOKEN)
        silence = np.zeros(recordings.SAMPLE_RATE, np.float32)
        async with asyncio.timeout(DEADLINE_SECONDS):
            stream = Client(self.server.url).stream(np.concatenate([pcm, silence]), **options)
            return [event async for event in stream]


@pytest.fixture(scope="module", params=["transformers", "vllm", "ctranslate2"])
def graph(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Whisper]:
    """A checkpoint for English and German, in each of the engines."""
    path = tmp_path_factory.mktemp("several") / MODEL
    stock = answers_that_end(random_whisper(path, seed=3), path)
    prompt = PromptFormat(open_checkpoint(path))
    engine = [f"--PdWorker.engine={request.param}"]
    if request.param == "ctranslate2":
        engine.append("--PdWorker.compute_type=float32")
    with serving(f"--Common.model={path}", *PUBLISHED, *engine, config=CONFIG) as server:
        yield Whisper(server, path, prompt, stock)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whisper]:
    """An English-only checkpoint."""
    path = tmp_path_factory.mktemp("english") / MODEL
    stock = answers_that_end(random_english_whisper(path), path)
    prompt = PromptFormat(open_checkpoint(path))
    with serving(f"--Common.model={path}", *PUBLISHED, *LIGHT_ENGINE, config=CONFIG) as server:
        yield Whisper(server, path, prompt, stock)


def capabilities(server: Server) -> dict[str, Any]:
    (listed,) = httpx.get(f"{server.url}/v1/models", timeout=ANSWER_SECONDS).json()["data"]
    found: dict[str, Any] = listed["capabilities"]
    return found


def _field(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final) and event.text]


# ── languages ───────────────────────────────────────────────────────────────


def test_the_language_is_detected_and_told_as_openai_does(graph: Whisper) -> None:
    detected = graph.language()
    told = graph.verbose()
    assert told["language"] == detected.lower()
    assert told["text"] == graph.text(detected) != ""
    assert [segment["text"] for segment in told["segments"]] == [told["text"]]


@pytest.mark.parametrize("given", ["de", "en", "German", "en-US"])
def test_a_language_that_is_given_is_written(graph: Whisper, given: str) -> None:
    name = "German" if given in ("de", "German") else "English"
    told = graph.verbose(language=given)
    assert (told["language"], told["text"]) == (name.lower(), graph.text(name))


@pytest.mark.parametrize("among", [["de", "en"], ["en", "fr"]])
def test_of_languages_that_are_named_one_is_detected(graph: Whisper, among: list[str]) -> None:
    detected = graph.language(*graph.prompt.language_constraint(among))
    told = graph.verbose(**_field("languages[]", among))
    assert (told["language"], told["text"]) == (detected.lower(), graph.text(detected))


def test_a_language_that_the_checkpoint_lacks_is_refused(graph: Whisper) -> None:
    refused = graph.post(language="fr")
    assert refused.status_code == 400
    assert "supported: en (English), de (German)" in refused.json()["error"]["message"]


async def test_live_text_is_in_the_language_that_is_given(graph: Whisper) -> None:
    events = await graph.streamed(language="de")
    assert finals(events)
    told = [event for event in events if isinstance(event, Partial | Final)]
    assert {event.language for event in told} == {"German"}


def test_clients_are_told_languages_and_that_it_translates(graph: Whisper) -> None:
    told = capabilities(graph.server)
    assert (told["languages"], told["translate"]) == (["en", "de"], ["en"])


# ── translation ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("language", ["de", None])
def test_a_recording_is_translated_by_the_model(graph: Whisper, language: str | None) -> None:
    fields = {} if language is None else {"language": language}
    told = graph.verbose("translations", **fields)
    assert (told["task"], told["language"]) == ("translate", "english")
    spoken = "German" if language else graph.language()
    assert told["text"] == graph.text(spoken, translating=True)
    assert graph.text("German", translating=True) != graph.text("German")


def test_english_is_not_translated(graph: Whisper) -> None:
    assert graph.verbose("translations", language="en")["text"] == graph.text("English")


@pytest.mark.parametrize("kind", ["text", "srt", "vtt"])
def test_a_translation_is_told_in_each_format(graph: Whisper, kind: str) -> None:
    answer = graph.post("translations", language="de", response_format=kind)
    assert graph.text("German", translating=True) in answer.text
    assert "<|" not in answer.text


def test_another_target_is_refused(graph: Whisper) -> None:
    refused = graph.post("translations", to_language="es")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "to_language")
    assert "into en only" in refused.text


async def test_each_final_of_a_live_session_is_followed_by_its_english(graph: Whisper) -> None:
    plain = await graph.streamed(language="de", partials=False)
    events = await graph.streamed(language="de", partials=False, translate=["en"])
    assert finals(events) == finals(plain) != []
    told = {event.segment: event for event in events if isinstance(event, Translation)}
    assert set(told) == {final.segment for final in finals(events)}
    for event in told.values():
        assert event.final and event.language == "en" and event.missing is None
        assert event.committed and "<|" not in event.committed
    assert [final.text for final in finals(events)] != [one.committed for one in told.values()]


async def test_english_speech_is_its_own_translation(graph: Whisper) -> None:
    events = await graph.streamed(language="en", partials=False, translate=["en"])
    missing = {event.missing for event in events if isinstance(event, Translation)}
    assert missing == {"same_language"}


async def test_openais_realtime_translations_are_served(graph: Whisper) -> None:
    pcm = recordings.samples(SPOKEN)
    at_24k = np.interp(np.arange(0, len(pcm), 2 / 3), np.arange(len(pcm)), pcm)
    data = (np.concatenate([at_24k, np.zeros(24_000)]) * 32767).astype("<i2").tobytes()
    url = graph.server.url.replace("http", "ws") + "/v1/realtime/translations"
    deltas, kinds = [], []
    async with asyncio.timeout(DEADLINE_SECONDS), websockets.connect(url) as socket:
        for start in range(0, len(data), 48_000):
            audio = base64.b64encode(data[start : start + 48_000]).decode()
            append = {"type": "session.input_audio_buffer.append", "audio": audio}
            await socket.send(json.dumps(append))
        await socket.send(json.dumps({"type": "session.close"}))
        async for message in socket:
            event = json.loads(message)
            kinds.append(event["type"])
            if event["type"] == "session.output_transcript.delta":
                deltas.append(event["delta"])
            if event["type"] == "session.closed":
                break
    assert "error" not in kinds
    assert "".join(deltas).strip()


# ── prompts ─────────────────────────────────────────────────────────────────


def test_a_prompt_is_the_text_before(graph: Whisper) -> None:
    told = graph.verbose(language="de", prompt="peter")
    assert told["text"] == graph.text("German", context="peter") != graph.text("German")


def test_keywords_are_part_of_it(graph: Whisper) -> None:
    with_prompt = graph.verbose(language="de", **_field("keywords[]", ["peter"]))
    assert with_prompt["text"] != graph.text("German")


def test_control_tokens_in_a_prompt_are_text(graph: Whisper) -> None:
    told = graph.verbose(language="de", prompt="<|translate|>")
    assert told["text"] == graph.text("German", context="<|translate|>")


def test_a_prompt_that_is_too_long_is_refused(graph: Whisper) -> None:
    refused = graph.post(prompt="peter " * 300)
    assert refused.status_code == 400
    assert "at most 128 are allowed" in refused.json()["error"]["message"]


# ── scores ──────────────────────────────────────────────────────────────────


def test_log_probabilities_are_those_of_the_stock_model(graph: Whisper) -> None:
    told = graph.verbose(language="en", **_field("include[]", "logprobs"))
    entries = told["logprobs"]
    assert "".join(entry["token"] for entry in entries) == told["text"]
    tail = graph.prompt.tail("English")
    scores = graph.stock.logits(recordings.samples(SPOKEN), (), tail).log_softmax(1)
    expected = scores.max(1).values[: len(entries)]
    found = torch.tensor([entry["logprob"] for entry in entries])
    # CTranslate2 excludes control tokens from the first, to which random weights give a share.
    torch.testing.assert_close(found[:1], expected[:1], atol=1e-2, rtol=0)
    torch.testing.assert_close(found[1:], expected[1:], atol=1e-3, rtol=0)


def test_words_have_confidence(graph: Whisper) -> None:
    answer = httpx.post(
        f"{graph.server.url}/v1/listen?language=en",
        content=recordings.path(SPOKEN).read_bytes(),
        headers={"content-type": "audio/flac"},
        timeout=DEADLINE_SECONDS,
    )
    assert answer.status_code == 200, answer.text
    (alternative,) = answer.json()["results"]["channels"][0]["alternatives"]
    assert alternative["transcript"] and "<|" not in alternative["transcript"]
    assert 0 < alternative["confidence"] <= 1
    assert all(0 < word["confidence"] <= 1 for word in alternative["words"])


@pytest.mark.parametrize("kind", ["json", "text", "srt", "vtt"])
def test_no_format_shows_a_control_token(graph: Whisper, kind: str) -> None:
    answer = graph.post(language="de", response_format=kind)
    assert answer.status_code == 200 and "<|" not in answer.text
    assert graph.text("German") in (answer.json()["text"] if kind == "json" else answer.text)


# ── a checkpoint of one language ────────────────────────────────────────────


@pytest.mark.parametrize("language", [None, "en", "English"])
def test_a_checkpoint_of_english_writes_it(english: Whisper, language: str | None) -> None:
    told = english.verbose(**({} if language is None else {"language": language}))
    assert (told["language"], told["text"]) == ("english", english.text("English"))


@pytest.mark.parametrize("fields", [{"language": "de"}, {"languages[]": ["de", "fr"]}])
def test_it_says_what_it_knows_if_another_language_is_named(
    english: Whisper, fields: dict[str, Any]
) -> None:
    refused = english.post(**fields)
    assert refused.status_code == 400
    assert "supported: en (English)" in refused.json()["error"]["message"]


async def test_it_does_not_translate_and_says_what_does(english: Whisper) -> None:
    refused = english.post("translations")
    assert refused.status_code == 400
    assert "such as a multilingual Whisper" in refused.json()["error"]["message"]
    with pytest.raises(AuricleError, match="no translator"):
        await english.streamed(translate=["en"])
    told = capabilities(english.server)
    assert (told["languages"], told["translate"]) == (["en"], None)


@pytest.mark.parametrize("graph", ["transformers"], indirect=True)
async def test_a_profile_loads_the_encode_worker_alone(graph: Whisper) -> None:
    """Its speakers speak in any language, which a decode detects; no PD worker answers them."""
    here = [f"--Common.discovery_path={graph.server.discovery}"]
    settings = settings_for("Processor", load_config(ROOT / CONFIG, here), CONFIG)
    speech = [to_int16(recordings.samples(SPOKEN))]
    source = LoadInput(settings, open_checkpoint(graph.model), speech)
    port = graph.server.system_ports["EncodeWorker"]
    runtime = Runtime(settings)
    try:
        speakers = SpeakerPools(runtime, source)
        await speakers.ready()
        before = used(port, "EncodeWorker")
        tasks = speakers.start(SpeakerGroup(2.5, decoding=False, first=0, count=1))
        try:
            await eventually(
                lambda: used(port, "EncodeWorker") >= before + 2 or tasks[0].done(),
                DEADLINE_SECONDS,
            )
            if tasks[0].done():
                tasks[0].result()
        finally:
            await cancelled(tasks)
    finally:
        runtime.close()
