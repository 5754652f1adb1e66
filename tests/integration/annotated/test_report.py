"""`auricle transcribe --report` requests all annotations that the server offers."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
import soundfile

from auricle_testing.commands import auricle
from auricle_testing.server import Server
from tests.dialogue import RATE, conversation

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]


async def test_a_report_has_speakers_and_words(server: Server, tmp_path: Path) -> None:
    recording, report = tmp_path / "conversation.wav", tmp_path / "report.html"
    soundfile.write(recording, conversation(), RATE, subtype="PCM_16")
    command = ("transcribe", str(recording), "--url", server.url, "--json", "--report", str(report))
    done = await asyncio.to_thread(auricle, *command)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    page = report.read_text()
    # A segment's words may arrive before the words of an earlier segment.
    aligned = sorted((e for e in events if e["type"] == "words"), key=lambda e: e["segment"])
    told = [word["text"] for event in aligned for word in event["words"]]
    shown = re.findall(r'<span class="word[^>]*title="[^"]*% sure">([^<]*)</span>', page)
    assert shown == [text.strip() for text in told] and len(told) > 20
    speakers = {
        part["speaker"]
        for event in events
        if event["type"] == "speakers"
        for part in event["parts"]
        if part["text"]
    }
    assert {f"{one}" for one in speakers} == set(re.findall(r">Speaker (\d)</b>", page))
