"""The page at `/` in headless Chromium, operated like a user."""

from __future__ import annotations

import json
import re
from pathlib import Path
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
WORDS = RECORDING.with_suffix(".txt").read_text().strip()
SCREENSHOTS = ("begin", "light", "dark", "phone")


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


def test_nobody_is_shut_out(found: dict[str, Any]) -> None:
    assert found["violations"] == []
    assert found["overflow"] == []
    assert found["focused"] == "listen"


def test_it_is_quiet_small_and_by_itself(found: dict[str, Any], server: Server) -> None:
    assert found["console"] == []
    assert [url for url in found["requests"] if not url.startswith((server.url, "blob:"))] == []
    assert 0 < max(found["weights"]) < 150_000
    assert not found["keyAskedInVain"]
    assert not found["offered"]


def test_it_looks_as_the_readme_shows(found: dict[str, Any], shown: Path) -> None:
    assert found
    for name in SCREENSHOTS:
        assert (shown / f"{name}.png").stat().st_size > 5_000
