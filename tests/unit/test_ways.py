"""The benchmark of the ways in tells how far they lie apart, and what nobody said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.streaming.audio import Recording, Word
from benchmarks.ways.figures import figures, invented
from benchmarks.ways.kept import Kept, name_of
from benchmarks.ways.pace import Progress
from benchmarks.ways.ways import Heard, Segment

pytestmark = pytest.mark.unit
SPOKEN = Recording(
    np.zeros(16_000 * 10, np.float32),
    tuple(
        Word(word, at, at + 0.5) for at, word in enumerate(["my", "red", "bus", "is", "slow"], 1)
    ),
    (),
)
SILENT = Recording(np.zeros(16_000, np.float32), (), ())


def heard(*texts: str, start: float = 0.7) -> Heard:
    return Heard(
        tuple(Segment(text, start + 2 * n, start + 2 * n + 1) for n, text in enumerate(texts))
    )


def test_the_spread_is_between_the_best_and_the_worst_way() -> None:
    texts = {
        "command_line": [heard("my red bus is slow")],
        "post": [heard("my red bus is slow")],
        "live": [heard("my red bus is blue")],
    }
    nothing = {way: [Heard(())] for way in texts}
    found = figures([SPOKEN], texts, [SILENT], nothing)
    assert (found["wer_post"], found["wer_live"]) == (0.0, pytest.approx(20.0))
    assert found["wer_ways_spread"] == pytest.approx(20.0)
    assert (found["same_text_post"], found["same_text_live"]) == (1.0, 0.0)


def test_words_are_invented_where_nobody_speaks() -> None:
    assert invented(SPOKEN, heard("my red bus")) == 0
    assert invented(SPOKEN, heard("near maria", start=8.0)) == 2
    assert invented(SILENT, heard("january")) == 1
    texts = {"command_line": [heard("my red bus is slow")]}
    found = figures([SPOKEN], texts, [SILENT], {"command_line": [heard("january")]})
    assert found["invented_words_command_line"] == 1.0


def test_decodes_are_counted_against_the_grid() -> None:
    way = {"command_line": [Heard((Segment("my red bus is slow", 1.0, 7.4),), decoded=5)]}
    found = figures([SPOKEN], way, [], {"command_line": []})
    assert found["decodes_per_grid_point_command_line"] == pytest.approx(0.5)


def test_no_speech_is_sent_of_which_two_grid_points_would_lack_their_text() -> None:
    live, realtime = Progress(), Progress()
    assert not live.behind(60.0)  # in silence no text comes
    live.event({"type": "speech_started", "at_ms": 2_000})
    realtime.event({"type": "input_audio_buffer.speech_started", "audio_start_ms": 2_000})
    for subject in (live, realtime):
        assert not subject.behind(3.1)
        assert subject.behind(3.3)
    live.event({"type": "partial", "audio_ms": 2_640})
    realtime.event({"type": "auricle.transcription.partial"})
    for subject in (live, realtime):
        assert not subject.behind(3.7)
        assert subject.behind(3.9)
    live.event({"type": "final", "end_ms": 3_500})
    realtime.event({"type": "conversation.item.input_audio_transcription.segment", "end": 3.5})
    for subject in (live, realtime):
        assert not subject.behind(4.6)
        assert subject.behind(4.8)
    live.event({"type": "speech_stopped", "at_ms": 3_500})
    assert not live.behind(60.0)


def test_an_interrupted_run_goes_on_with_what_was_heard(tmp_path: Path) -> None:
    file, name = tmp_path / "ways.json.heard", name_of(SPOKEN.samples)
    first = Kept(file)
    first.add("live", name, heard("my red", "bus"))
    resumed = Kept(file, resume=True)
    assert ("live", name) in resumed
    assert resumed["live", name] == heard("my red", "bus")
    assert ("post", name) not in resumed
    assert ("live", name_of(SILENT.samples)) not in resumed
    assert ("live", name) not in Kept(file)
    assert not file.exists()
