"""`auricle transcribe` and the client library report missing audio of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from auricle.audio.findings import Findings, OnDamage
from auricle.cli.main import main
from auricle.client.sources import file_blocks
from auricle.client.transcribe import TranscribeRequest, transcribe
from auricle.core.errors import AudioTooLong, BadRequest
from auricle_testing import media, recordings
from auricle_testing.containers import encoded, spoiled
from tests.fakes.stream_server import Connection, serving

pytestmark = pytest.mark.unit


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "talk.mp3"
    path.write_bytes(spoiled(encoded("mp3", [(0.0, recordings.samples("kitchen"))]), "hole"))
    return path


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    path = tmp_path / "talk.wav"
    path.write_bytes(media.wav(bytes(32_000), stated=64_000))
    return path


async def heard(file: Path, on_damage: OnDamage = "reject") -> bool:
    """Whether the command finds the file complete; the server gets the rest of its audio."""

    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        assert await connection.audio()
        await connection.say("done", text="", usage={"audio_ms": 125})

    async with serving(session) as url:
        return await transcribe(TranscribeRequest(file, url=url, on_damage=on_damage), None)


async def test_a_file_that_is_cut_off_is_transcribed_and_its_end_named(
    cut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not await heard(cut)
    assert (
        "auricle: the file is cut off: about 1.0 s or more are missing" in capsys.readouterr().err
    )


async def test_a_damaged_file_is_refused_unless_it_is_to_be_kept(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = TranscribeRequest(damaged, url="http://127.0.0.1:1")
    with pytest.raises(BadRequest, match=r"talk\.mp3 is damaged \d\.\d s after its start"):
        await transcribe(request, None)
    assert not await heard(damaged, "keep")
    assert "auricle: the recording is damaged at" in capsys.readouterr().err


async def test_a_complete_file_has_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert await heard(recordings.path("hello"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("complete", "status"), [(True, 0), (False, 3)])
def test_the_exit_status_tells_whether_the_file_is_complete(
    monkeypatch: pytest.MonkeyPatch, cut: Path, complete: bool, status: int
) -> None:
    async def transcribed(_request: TranscribeRequest, _key: str | None) -> bool:
        return complete

    monkeypatch.setattr("auricle.client.transcribe.transcribe", transcribed)
    done = CliRunner().invoke(main, ["transcribe", str(cut), "--on-damage", "keep"])
    assert done.exit_code == status


def test_a_program_that_streams_a_file_gets_a_warning(cut: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"talk\.wav: the file is cut off"):
        assert sum(map(len, file_blocks(cut))) == 16_000
    findings = Findings()
    assert sum(map(len, file_blocks(cut, findings))) == 16_000
    assert findings.incomplete


def test_a_gap_of_a_file_is_silence_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "paused.webm"
    spoken = recordings.samples("hello")
    path.write_bytes(encoded("webm", [(0.0, spoken), (60.0, spoken)]))
    blocks = list(file_blocks(path, Findings()))
    assert max(map(len, blocks)) <= 10 * 16_000
    assert sum(map(len, blocks)) / 16_000 == pytest.approx(60 + len(spoken) / 16_000, abs=0.1)
    assert not np.concatenate(blocks)[10 * 16_000 : 50 * 16_000].any()


def test_a_gap_of_a_year_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "year.mka"
    path.write_bytes(
        media.matroska([media.pcm_track()], [bytes(640)] * 2, times=[0, 365 * 24 * 3_600_000])
    )
    with pytest.raises(AudioTooLong, match=r"year\.mka has no audio for"):
        list(file_blocks(path, Findings()))
