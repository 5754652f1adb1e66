"""The page at `/` of a server with word times and speakers, in headless Chromium."""

from __future__ import annotations

import re
from typing import Any

import jiwer
import pytest
import soundfile

from auricle_testing.chromium.driving import driven
from auricle_testing.chromium.visits import emptied
from auricle_testing.server import ROOT, Server
from tests.browser import needs_node
from tests.dialogue import RATE, TURNS, conversation

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment, needs_node]
DEADLINE_SECONDS = 300


async def shown(server: Server) -> dict[str, Any]:
    """What Chromium found, see components/auricle_testing/chromium/annotated.mjs."""
    folder = emptied(ROOT / "build/annotated")
    recording = folder / "conversation.wav"
    soundfile.write(recording, conversation(), RATE, subtype="PCM_16")
    address = f"{server.url}/"
    return await driven("annotated.mjs", address, recording, folder, seconds=DEADLINE_SECONDS)


async def test_a_file_has_speakers_and_word_times_without_a_microphone(server: Server) -> None:
    found = await shown(server)
    assert found["noMicrophone"] == "No microphone: none is connected; a file works without one."
    speakers = [set(line["speakers"]) for line in found["lines"]]
    assert len(speakers) >= len(TURNS) and set.union(*speakers) == {"Speaker 1", "Speaker 2"}
    for line in found["lines"]:
        assert line["words"] and not line["missing"]
        assert all(
            re.match(r"\d+\.\d\d to \d+\.\d\d s, \d+ % sure", word["title"])
            for word in line["words"]
        )
    said = " ".join(word["text"] for line in found["lines"] for word in line["words"])
    assert jiwer.wer(" ".join(text for _, text in TURNS), said.lower()) < 0.3
    assert found["console"] == found["violations"] == found["overflow"] == []
