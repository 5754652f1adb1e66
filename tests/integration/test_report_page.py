"""A recording's report in headless Chromium: read and played offline.

Its events come from the bundled models, including the aligner and the translator, for the same
audio.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from auricle.client.events import typed
from auricle.client.report import ReportSegments, write_report
from auricle_testing.chromium.driving import driven
from auricle_testing.chromium.visits import emptied
from auricle_testing.server import ROOT
from tests.browser import needs_node
from tests.dialogue import ERRAND, conversation

pytestmark = [pytest.mark.integration, needs_node]
DEADLINE_SECONDS = 240
EVENTS = Path(__file__).parent / "dialogue.jsonl"
SCREENSHOTS = ("light", "dark", "phone")


@pytest.fixture(scope="module")
def shown() -> Path:
    """The folder in which the screenshots remain for inspection."""
    return emptied(ROOT / "build/report")


@pytest.fixture(scope="module")
def told() -> ReportSegments:
    found = ReportSegments()
    for line in EVENTS.read_text().splitlines():
        event = typed(json.loads(line))
        assert event is not None
        found.add(event)
    return found


@pytest.fixture(scope="module")
def found(shown: Path, told: ReportSegments) -> dict[str, Any]:
    """Chromium's results, see components/auricle_testing/chromium/report.mjs."""
    page = shown / "report.html"
    write_report(page, "conversation.wav", conversation(ERRAND), told.segments())
    return asyncio.run(driven("report.mjs", page.as_uri(), shown, seconds=DEADLINE_SECONDS))


def test_it_says_who_said_what_and_what_that_means(
    found: dict[str, Any], told: ReportSegments
) -> None:
    assert len(found["segments"]) == len(told.segments()) >= 3
    for shown, one in zip(found["segments"], told.segments(), strict=True):
        assert shown["text"] == one.final.text
        assert shown["speakers"] == [f"Speaker {part.speaker}" for part in one.parts if part.text]
        assert one.translation is not None and shown["translation"] == one.translation.committed
    assert "2 speakers" in found["about"] and "sure on average" in found["about"]


def test_what_is_played_is_marked(found: dict[str, Any]) -> None:
    start = found["segments"][1]["start"]
    assert start <= found["playedFrom"] < start + 5
    assert found["line"] == pytest.approx(found["at"] / found["seconds"], abs=0.05)


def test_each_word_has_its_time_and_confidence(found: dict[str, Any], told: ReportSegments) -> None:
    words = told.segments()[0].words
    assert words is not None and len(found["words"]) == len(words.words)
    assert [row[0] for row in found["words"]] == [word.word for word in words.words]
    assert all(row[1] < row[2] and row[3].endswith("%") for row in found["words"])
    assert found["word"] == words.words[-1].text.strip()


def test_nobody_is_shut_out(found: dict[str, Any], shown: Path) -> None:
    assert found["violations"] == found["overflow"] == found["console"] == []
    for name in SCREENSHOTS:
        assert (shown / f"report-{name}.png").stat().st_size > 5_000


def test_it_needs_nobody(found: dict[str, Any]) -> None:
    assert [url for url in found["requests"] if not url.startswith(("file:", "data:"))] == []
