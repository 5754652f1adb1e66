"""`POST /v1/audio/transcriptions` with the official client, and requests that it never sends."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import httpx
import jiwer
import numpy as np
import openai
import pytest
import soundfile
from openai.types.audio import TranscriptionVerbose
from pydantic import TypeAdapter

from auricle.checkpoints.tokenizer import load_tokenizer
from auricle.client.stream import stream_file
from auricle_testing import media, recordings
from auricle_testing.engines import MODEL
from auricle_testing.server import ANSWER_SECONDS, Server, eventually

pytestmark = pytest.mark.end_to_end
WORD_ERRORS = 0.25


@pytest.fixture
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0)


def wer(name: str, text: str) -> float:
    return float(jiwer.wer(recordings.words(name), text))


def test_a_file_becomes_its_words(client: openai.OpenAI) -> None:
    done = client.audio.transcriptions.create(file=recordings.path("market"), model="demo")
    assert wer("market", done.text) <= WORD_ERRORS
    assert done.usage is not None
    assert done.usage.type == "duration"
    seconds = len(recordings.samples("market")) / 16_000
    assert done.usage.seconds == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answered_recording_counts_as_done(
    client: openai.OpenAI, server: Server, stream: bool
) -> None:
    def ended(result: str) -> float:
        metric = "auricle_frontend_recordings_ended_total"
        return server.metric("Frontend", metric, result=result)

    before = {result: ended(result) for result in ("done", "client_gone")}
    answer = await asyncio.to_thread(
        client.audio.transcriptions.create,
        file=recordings.path("hello"),
        model="demo",
        stream=stream,
    )
    if not isinstance(answer, openai.types.audio.Transcription):
        assert list(answer)
    await eventually(lambda: ended("done") == before["done"] + 1, seconds=60)
    assert ended("client_gone") == before["client_gone"]


async def test_the_words_are_those_of_a_session(client: openai.OpenAI, server: Server) -> None:
    """Except for the context, one part is decoded exactly like a segment of a live session."""
    stream = stream_file(server.url, recordings.samples("hello"), live=False)
    events = [event async for event in stream]
    path = recordings.path("hello")
    done = await asyncio.to_thread(
        client.audio.transcriptions.create, file=path, model="demo", language="en"
    )
    forced = stream_file(server.url, recordings.samples("hello"), live=False, language="en")
    assert done.text == [event async for event in forced][-1]["text"]
    assert events[-1]["text"]


async def test_a_long_recording_has_no_word_that_a_session_has_not(
    client: openai.OpenAI, server: Server
) -> None:
    """For each response format, a recording is segmented and decoded like a live session.

    At one of these repetitions, the checkpoint invents words if two sentences are in one segment.
    """
    samples = np.tile(recordings.samples("market"), 8)
    events = [event async for event in stream_file(server.url, samples, live=False)]
    for form in ("json", "verbose_json"):
        done = await asyncio.to_thread(
            client.audio.transcriptions.create,
            file=("long.flac", flac(samples)),
            model="demo",
            response_format=form,
        )
        heard = jiwer.process_words(events[-1]["text"], done.text)
        assert heard.insertions == 0, done.text
        assert heard.wer <= 0.01


def flac(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="FLAC")
    return file.getvalue()


def test_streaming_gives_the_same_text_piece_by_piece(client: openai.OpenAI) -> None:
    path = recordings.path("kitchen")
    whole = client.audio.transcriptions.create(file=path, model="demo").text
    events = list(client.audio.transcriptions.create(file=path, model="demo", stream=True))
    deltas = [e.delta for e in events if e.type == "transcript.text.delta"]
    assert len(deltas) >= 2  # a pause lies in between
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "".join(deltas) == whole
    assert events[-1].usage is not None
    assert min(events[-1].usage.input_tokens, events[-1].usage.output_tokens) > len(deltas)


def test_verbose_json_has_segments_with_times(client: openai.OpenAI) -> None:
    done = client.audio.transcriptions.create(
        file=recordings.path("kitchen"),
        model="demo",
        response_format="verbose_json",
        timestamp_granularities=["segment"],
    )
    TypeAdapter(TranscriptionVerbose).validate_json(done.to_json(), strict=True)
    assert done.segments is not None
    tokenizer = load_tokenizer(MODEL)
    assert done.language == "english"
    assert " ".join(s.text for s in done.segments) == done.text
    ends = [0.0]
    for segment in done.segments:
        assert ends[-1] <= segment.start < segment.end <= done.duration
        ends.append(segment.end)
        assert tokenizer.decode(segment.tokens).strip() == segment.text
        assert segment.seek == int(segment.start * 100)
        assert -1.0 < segment.avg_logprob < 0.0
        assert 0.0 <= segment.no_speech_prob < 0.5
        assert segment.compression_ratio > 0.5


@pytest.mark.parametrize(
    ("response_format", "begins"), [("text", ""), ("srt", "1\n00:00:0"), ("vtt", "WEBVTT\n\n00:")]
)
def test_text_formats_are_plain_text(
    client: openai.OpenAI, response_format: str, begins: str
) -> None:
    path = recordings.path("hello")
    done = client.audio.transcriptions.create(
        file=path, model="demo", response_format=response_format
    )
    assert str(done).startswith(begins)
    assert "-->" in str(done) or response_format == "text"


def test_turn_settings_reach_the_voice_activity(client: openai.OpenAI) -> None:
    def segments(**strategy: object) -> int:
        done = client.audio.transcriptions.create(
            file=recordings.path("kitchen"),
            model="demo",
            response_format="verbose_json",
            chunking_strategy={"type": "server_vad", **strategy},  # type: ignore[typeddict-item]
        )
        return len(done.segments or ())

    assert segments(silence_duration_ms=5_000) < segments(silence_duration_ms=200)


def test_a_long_recording_is_cut_and_stitched_in_order(client: openai.OpenAI) -> None:
    names = ["market", "hello", "kitchen", "evening", "station"] * 3
    gap = np.zeros(12_000, np.float32)
    samples = np.concatenate([part for n in names for part in (recordings.samples(n), gap)])
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="FLAC")
    done = client.audio.transcriptions.create(file=("long.flac", file.getvalue()), model="demo")
    assert jiwer.wer(" ".join(recordings.words(n) for n in names), done.text) <= WORD_ERRORS


def test_models_are_listed_and_shown(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").owned_by == "auricle"
    with pytest.raises(openai.NotFoundError, match="'nope' does not exist; served here: demo"):
        client.models.retrieve("nope")


SMALL = ("x.flac", recordings.path("hello").read_bytes())


@pytest.mark.parametrize(
    ("fields", "files", "status", "param", "message"),
    [
        ({}, {"file": SMALL}, 400, "model", "model is missing"),
        ({"model": "demo"}, {}, 400, "file", "file is missing"),
        ({"model": "nope"}, {"file": SMALL}, 404, None, "'nope' does not exist; served here: demo"),
        ({"model": "demo", "voice": "x"}, {"file": SMALL}, 400, "voice", "voice is not supported"),
        (
            {"model": "demo", "temperature": "1.5"},
            {"file": SMALL},
            400,
            "temperature",
            "temperature '1.5' cannot be used",
        ),
        (
            {"model": "demo", "language": "tlh"},
            {"file": SMALL},
            400,
            "language",
            "language 'tlh' is not supported; supported: en (English)",
        ),
        (
            {"model": "demo", "languages[]": ["de", "fr"]},
            {"file": SMALL},
            400,
            "languages",
            "languages 'de, fr' are not supported; supported: en (English)",
        ),
        (
            {"model": "demo"},
            {"file": ("notes.txt", b"hello")},
            400,
            None,
            "notes.txt is not readable as WAV, FLAC, MP3, Ogg",
        ),
        ({"model": "demo"}, {"file": ("e.wav", b"")}, 400, None, "e.wav is not readable"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(
    server: Server,
    fields: dict[str, Any],
    files: dict[str, tuple[str, bytes]],
    status: int,
    param: str | None,
    message: str,
) -> None:
    # Without a file httpx would send no multipart form.
    form = files or {"none": ("", b"")}
    answer = httpx.post(
        f"{server.url}/v1/audio/transcriptions", data=fields, files=form, timeout=60
    )
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert message in error["message"]
    assert error["param"] == param


def test_a_body_that_is_no_form_is_refused(server: Server) -> None:
    url = f"{server.url}/v1/audio/transcriptions"
    answer = httpx.post(url, json={"model": "demo"}, timeout=ANSWER_SECONDS)
    assert answer.status_code == 400
    assert "must be multipart/form-data, not 'application/json'" in answer.text
    broken = httpx.post(
        url,
        content=b"--x\r\nnonsense",
        headers={"content-type": "multipart/form-data"},
        timeout=ANSWER_SECONDS,
    )
    assert broken.status_code == 400
    assert "the form cannot be read" in broken.text


async def test_a_cancelled_upload_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    long = tmp_path / "long.flac"
    soundfile.write(long, np.tile(recordings.samples("market"), 60), 16_000)
    async with httpx.AsyncClient(timeout=60) as http:
        asked = asyncio.create_task(
            http.post(
                f"{server.url}/v1/audio/transcriptions",
                data={"model": "demo"},
                files={"file": ("long.flac", long.read_bytes())},
            )
        )
        await eventually(
            lambda: server.metric("Frontend", "auricle_frontend_recordings") == 1, seconds=60
        )
        await eventually(
            lambda: server.metric("Processor", "auricle_processor_sessions") >= 1, seconds=60
        )
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    await eventually(
        lambda: server.metric("Frontend", "auricle_frontend_recordings") == 0, seconds=60
    )
    await eventually(
        lambda: server.metric("Processor", "auricle_processor_sessions") == 0, seconds=60
    )


async def test_bombs_change_nothing_for_a_recording_beside_them(server: Server) -> None:
    """A million packets are rejected; another request gets its text during hours of silence."""
    url = f"{server.url}/v1/audio/transcriptions"

    async def post(http: httpx.AsyncClient, name: str, data: bytes) -> httpx.Response:
        return await http.post(url, data={"model": "demo"}, files={"file": (name, data)})

    recording = recordings.path("market").read_bytes()
    async with httpx.AsyncClient(timeout=120) as http:
        alone = (await post(http, "market.flac", recording)).json()["text"]
        silence = asyncio.create_task(
            post(http, "silence.flac", media.silent_flac(3 * 3600, 16_000, 1))
        )
        packets = asyncio.create_task(
            post(http, "packets.mkv", media.one_sample_packets(1_000_000))
        )
        together = await post(http, "market.flac", recording)
        assert together.json()["text"] == alone
        assert not silence.done()
        refused = await packets
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_costly")
        silence.cancel()
        await asyncio.gather(silence, return_exceptions=True)
    await eventually(
        lambda: server.metric("Frontend", "auricle_frontend_recordings") == 0, seconds=60
    )
