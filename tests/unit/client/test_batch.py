"""`auricle transcribe` of many recordings, and `Client.transcribe_many`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from auricle.cli.main import main
from auricle.client import Client, ServerUnreachable, SpeakerText, SyncClient, Transcript
from auricle.client.batch import (
    BatchRequest,
    BatchResult,
    find_recordings,
    output_paths,
    rendered,
    transcribe_batch,
)
from auricle.client.display import Format
from auricle.client.recordings import Segment
from auricle.core.errors import BadRequest, NoJobs, Overloaded, UndecodableAudio
from auricle.frontend.recordings.annotations import Translated
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
FULL = "auricle.client.recordings._SHORTEST_WAIT_SECONDS"
SPOKEN = Transcript(
    "Yes. No.", "english", 2.0, (Segment(0.0, 1.0, "Yes."), Segment(1.0, 2.0, "No."))
)


class Transcriber:
    """Transcribes a recording as its name, and counts how often it received each.

    A translation has its language, too.

    Names that begin with `broken` cannot be decoded; the first `full` recordings are refused.
    """

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()
        self.full = 0

    async def transcribe(
        self, recording: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        self.received[recording.name] += 1
        if self.full > 0:
            self.full -= 1
            raise Overloaded("as many recordings as possible are being transcribed", 0.0)
        if recording.name.startswith("broken"):
            raise UndecodableAudio(f"{recording.name} cannot be opened: it is not audio")
        name = Path(recording.name).stem
        told = Translated(f"{name} into {recording.translate}")
        yield RecordingSegment(name, 0, 80_000, "English", translation=told)
        yield Whole(5.0)


@pytest.fixture
def transcriber(monkeypatch: pytest.MonkeyPatch) -> Transcriber:
    made = Transcriber()
    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, lambda _self, recording: made.transcribe(recording))
    monkeypatch.setattr(FULL, 0.0)
    return made


def files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"RIFF")
    return [folder / name for name in names]


async def batch(front: Front, *sources: object, **request: Any) -> BatchResult:
    request.setdefault("formats", ("txt",))
    named = BatchRequest([str(source) for source in sources], url=front.url, **request)
    return await transcribe_batch(named, None)


# ── many files ──────────────────────────────────────────────────────────────


async def test_five_hundred_files_with_one_broken_and_again_with_what_is_left(
    tmp_path: Path, transcriber: Transcriber, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{number:03}.wav" for number in range(499)]
    files(tmp_path, *names, "broken.wav")
    front = Front()
    async with front.serving():
        first = await batch(front, tmp_path, formats=("txt", "srt"), jobs=8)
        said = capsys.readouterr().err
        again = await batch(front, tmp_path, formats=("txt", "srt"), jobs=8)
        forced = await batch(front, tmp_path / "000.wav", formats=("txt",), force=True)
    assert (first.transcribed, first.failed, first.skipped) == (499, 1, 0)
    assert f"auricle: {tmp_path / 'broken.wav'}: " in said
    assert "refused: broken.wav cannot be opened: it is not audio" in said
    assert "499 transcribed, 1 failed; 2495.0 s of audio in" in said
    assert (tmp_path / "042.txt").read_text() == "042\n"
    assert (tmp_path / "042.srt").read_text().startswith("1\n00:00:00,000 --> 00:00:05,000\n042\n")
    assert (again.transcribed, again.failed, again.skipped) == (0, 1, 499)
    assert forced.transcribed == 1
    assert transcriber.received["001.wav"] == 1
    assert transcriber.received["000.wav"] == transcriber.received["broken.wav"] == 2


async def test_a_recording_that_changed_is_transcribed_again(
    tmp_path: Path, transcriber: Transcriber
) -> None:
    (path,) = files(tmp_path, "a.wav")
    front = Front()
    async with front.serving():
        await batch(front, path)
        result = path.with_suffix(".txt").stat()
        path.write_bytes(b"RIFFRIFF")
        os.utime(path, (result.st_atime + 10, result.st_mtime + 10))
        again = await batch(front, path)
    assert (again.transcribed, again.skipped) == (1, 0)


async def test_translations_have_results_of_their_own_beside_the_transcripts(
    tmp_path: Path, transcriber: Transcriber
) -> None:
    path, _ = files(tmp_path, "a.wav", "broken.wav")
    front = Front(translate_model="models/translator")
    async with front.serving():
        await batch(front, path)
        translated = await batch(
            front, tmp_path, formats=("txt", "srt", "json"), options={"translate": "es"}
        )
        again = await batch(front, path, formats=("srt",), options={"translate": "es"})
    assert (translated.transcribed, translated.failed) == (1, 1)
    assert (tmp_path / "a.txt").read_text() == "a\n"
    assert (tmp_path / "a.es.txt").read_text() == "a into es\n"
    assert "00:00:05,000\na into es\n" in (tmp_path / "a.es.srt").read_text()
    assert json.loads((tmp_path / "a.es.json").read_text())["language"] == "spanish"
    assert (again.transcribed, again.skipped) == (0, 1)


async def test_a_server_without_a_translator_refuses_each_recording(
    tmp_path: Path, transcriber: Transcriber, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = files(tmp_path, "a.wav")
    front = Front()
    async with front.serving():
        result = await batch(front, path, options={"translate": "es"})
    assert result.failed == 1
    assert "this deployment has no translator" in capsys.readouterr().err
    assert not (tmp_path / "a.es.txt").exists()


async def test_a_translation_is_no_job_at_a_server_that_runs_none(
    tmp_path: Path, transcriber: Transcriber
) -> None:
    (path,) = files(tmp_path, "a.wav")
    front = Front(translate_model="models/translator")
    async with front.serving():
        with pytest.raises(NoJobs):
            await Client(front.url).submit(path, translate="es")


async def test_a_full_server_is_waited_for(tmp_path: Path, transcriber: Transcriber) -> None:
    paths = files(tmp_path, "a.wav", "b.wav", "c.wav")
    transcriber.full = 4
    front = Front()
    async with front.serving():
        found = {
            path.name: outcome
            async for path, outcome in Client(front.url).transcribe_many(paths, jobs=2)
        }
    assert {name: getattr(one, "text", one) for name, one in found.items()} == {
        "a.wav": "a",
        "b.wav": "b",
        "c.wav": "c",
    }
    assert sum(transcriber.received.values()) == 7


async def test_a_server_that_stays_full_is_an_error_of_the_recording(
    tmp_path: Path, transcriber: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber.full = 1
    monkeypatch.setattr(FULL, 61.0)
    front = Front()
    async with front.serving():
        paths = files(tmp_path, "a.wav", "b.wav")
        many = Client(front.url).transcribe_many(paths, jobs=1, timeout_seconds=60.0)
        (_, first), (_, second) = [one async for one in many]
    assert isinstance(first, Overloaded)
    assert isinstance(second, Transcript)


async def test_without_a_server_nothing_is_tried_further(tmp_path: Path) -> None:
    paths = files(tmp_path, "a.wav", "b.wav")
    with pytest.raises(ServerUnreachable):
        await transcribe_batch(BatchRequest([str(tmp_path)], ("txt",), "http://127.0.0.1:9"), None)
    assert not paths[0].with_suffix(".txt").exists()


def test_jobs_are_counted_from_one(tmp_path: Path) -> None:
    found = SyncClient("http://127.0.0.1:9").transcribe_many(files(tmp_path, "a.wav"), jobs=0)
    with pytest.raises(BadRequest, match="jobs must be at least 1"):
        next(found)


# ── sources and results ─────────────────────────────────────────────────────


def test_folders_are_searched_for_audio_and_patterns_are_matched(tmp_path: Path) -> None:
    files(tmp_path, "a.WAV", "deep/er/b.opus", "notes.txt", "named.bin")
    found = find_recordings([str(tmp_path)])
    assert found == {
        tmp_path / "a.WAV": Path("a.WAV"),
        tmp_path / "deep/er/b.opus": Path("deep/er/b.opus"),
    }
    assert list(find_recordings([str(tmp_path / "named.bin")])) == [tmp_path / "named.bin"]
    assert list(find_recordings([str(tmp_path / "**/*.opus")])) == [tmp_path / "deep/er/b.opus"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("missing.wav", "no such audio file: .*missing.wav"),
        ("*.mp3", "no such audio file: "),
        ("", "no recording is in the folder"),
    ],
)
def test_a_source_without_a_recording_is_an_error(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        find_recordings([str(tmp_path / source)])


def test_results_are_next_to_the_recording_or_in_the_same_folders_elsewhere() -> None:
    found = {Path("talks/a.mp3"): Path("a.mp3"), Path("talks/x/a.mp3"): Path("x/a.mp3")}
    own = output_paths(found, None, ("txt", "json"))
    assert own[Path("talks/a.mp3")] == {"txt": Path("talks/a.txt"), "json": Path("talks/a.json")}
    other = output_paths(found, Path("out"), ("txt",))
    assert [paths["txt"] for paths in other.values()] == [Path("out/a.txt"), Path("out/x/a.txt")]


def test_recordings_that_differ_only_in_their_suffix_have_separate_results() -> None:
    found = {Path("a.mp3"): Path("a.mp3"), Path("a.wav"): Path("a.wav")}
    own = output_paths(found, None, ("txt",))
    assert [paths["txt"].name for paths in own.values()] == ["a.mp3.txt", "a.wav.txt"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("txt", "A: Yes.\nB: No.\n"),
        ("tsv", "start\tend\ttext\n0\t1000\tA: Yes.\n1000\t2000\tB: No.\n"),
        ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA: Yes.\n"),
    ],
)
def test_with_speakers_each_turn_is_a_line(form: Format, expected: str) -> None:
    turns = (SpeakerText("A", 0.0, 1.0, "Yes."), SpeakerText("B", 1.0, 2.0, "No."))
    told = Transcript(SPOKEN.text, "english", 2.0, SPOKEN.segments, speakers=turns)
    assert rendered(told, form).startswith(expected)
    assert rendered(SPOKEN, "txt") == "Yes. No.\n"
    assert json.loads(rendered(told, "json"))["speakers"][1]["speaker"] == "B"


# ── the command ─────────────────────────────────────────────────────────────


def command(*arguments: str, url: str = "http://127.0.0.1:9") -> Result:
    return CliRunner(env={"AURICLE_URL": url}).invoke(main, ["transcribe", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.wav", "b.wav", "--live"], "--live takes one FILE"),
        (["a.wav", "--max-speakers", "2"], "--max-speakers needs --speakers"),
        (["a.wav", "--words", "--report", "x.html"], "--report takes one FILE"),
        (["a.wav", "--format", "txt,doc"], "is not a list of different formats of txt, srt"),
        (["a.wav", "--format", "srt", "--json"], "--json and --format srt: give one of them"),
        (["a.wav", "--jobs", "0"], "0 is not in the range x>=1"),
        (["a.wav", "--translate", "es", "--words"], "--translate has no --words and no --speakers"),
        (["*.py", "--translate", "../es"], "--translate ../es is not an ISO 639-1 code"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_address_may_be_a_variable(tmp_path: Path) -> None:
    files(tmp_path, "a.wav")
    done = command(str(tmp_path), url="http://127.0.0.1:7")
    assert done.exit_code == 1
    assert "no auricle server at http://127.0.0.1:7" in done.stderr
