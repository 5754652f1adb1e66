"""The page at `/` in headless Chromium, operated like a user."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import jiwer
import pytest

from auricle_testing.chromium.visits import RECORDING, captions, emptied
from auricle_testing.server import ROOT, Server
from tests.browser import needs_node

pytestmark = [
    pytest.mark.integration,
    needs_node,
]
SAMPLE = " ".join((RECORDING.parent / "kitchen.txt").read_text().split())
WORDS = RECORDING.with_suffix(".txt").read_text().strip()
SCREENSHOTS = ("begin", "light", "dark", "file", "reference", "phone")


@pytest.fixture(scope="module")
def shown() -> Path:
    """The folder in which the screenshots remain for inspection."""
    return emptied(ROOT / "build/page")


@pytest.fixture(scope="module")
def found(server: Server, shown: Path) -> dict[str, Any]:
    """Chromium's results, see components/auricle_testing/chromium/page.mjs."""
    return captions(server, shown)


def plain(text: str) -> list[str]:
    return re.sub(r"[^\w\s]", "", text.lower()).split()


def test_a_microphone_is_transcribed(found: dict[str, Any]) -> None:
    assert plain(found["microphone"]), found
    assert jiwer.wer(" ".join(plain(WORDS)), " ".join(plain(found["microphone"]))) < 0.2
    assert float(found["delay"].removesuffix(" s")) >= 0


def test_a_file_is_transcribed(found: dict[str, Any]) -> None:
    assert plain(found["file"]) == plain(WORDS)


def test_what_was_said_can_be_saved(found: dict[str, Any], shown: Path) -> None:
    saved = {
        name: (shown / f"transcript.{name}").read_text() for name in ("txt", "srt", "vtt", "json")
    }
    assert " ".join(saved["txt"].split()) == found["file"]
    assert json.loads(saved["json"])["text"] == found["file"]
    assert re.match(r"1\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n\S", saved["srt"])
    assert re.match(r"WEBVTT\n\n\d\d:\d\d:\d\d\.\d{3} --> ", saved["vtt"])
    assert max(map(len, saved["srt"].splitlines())) <= 42


def test_the_sample_is_understood_and_each_word_has_a_confidence(found: dict[str, Any]) -> None:
    assert jiwer.wer(SAMPLE, " ".join(plain(found["sample"]))) < 0.2
    assert len(found["confidence"]) == len(found["sample"].split())
    assert all(title.endswith(" % sure") for title in found["confidence"])


def test_programs_do_the_same(found: dict[str, Any], tmp_path: Path) -> None:
    copy(RECORDING, tmp_path / "talk.wav")  # FLAC is known by its content
    curl, python = found["programs"][:2]
    told = subprocess.run(["bash", "-c", curl], cwd=tmp_path, capture_output=True, check=True)
    assert plain(json.loads(told.stdout)["text"]) == plain(WORDS)
    command = [sys.executable, "-c", python]
    live = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert plain(live.stdout) == plain(WORDS)


def test_the_reference_of_the_api_needs_nothing_from_elsewhere(found: dict[str, Any]) -> None:
    assert "POST /v1/audio/transcriptions" in found["reference"]


def test_nobody_is_shut_out(found: dict[str, Any]) -> None:
    assert found["violations"] == []
    assert found["overflow"] == []
    assert found["focused"] == "listen"


def test_it_is_quiet_small_and_by_itself(found: dict[str, Any], server: Server) -> None:
    assert found["console"] == []
    assert [
        url for url in found["requests"] if not url.startswith((server.url, "blob:", "data:"))
    ] == []
    assert 0 < max(found["weights"]) < 200_000  # with a sample
    assert not found["keyAskedInVain"]
    assert not found["offered"]


def test_it_looks_as_the_readme_shows(found: dict[str, Any], shown: Path) -> None:
    assert found
    for name in SCREENSHOTS:
        assert (shown / f"{name}.png").stat().st_size > 5_000
