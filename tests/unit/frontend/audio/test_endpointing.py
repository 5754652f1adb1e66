"""Endpointing forwards speech, and detects its start and end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, SpeechEnd, SpeechOnset
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from tests.fakes.pieces import joined, shape

pytestmark = pytest.mark.unit
# 10 frames of silence end speech; 5 frames before it are kept.
OPTIONS = EndpointingOptions(threshold=0.5, min_silence_ms=320, pre_roll_ms=160)
PRE_ROLL = 5 * VAD_FRAME
HANGOVER = 3_200
LAG = 2 * VAD_FRAME  # the delay of the model's end of speech


def audio(frames: int) -> np.ndarray:
    return np.arange(frames * VAD_FRAME, dtype=np.int64).astype(np.int16)


def run(probabilities: list[float], rest: int = 0) -> list[AudioEvent]:
    """Send everything at once, then the end."""
    gate = Endpointer(OPTIONS)
    samples = audio(len(probabilities) + 1)[: len(probabilities) * VAD_FRAME + rest]
    return joined([*gate.push(samples, probabilities), *gate.finish([0.0] if rest else [])])


def test_silence_is_not_let_through() -> None:
    assert run([0.01] * 200) == []


def test_a_click_or_a_breath_opens_nothing() -> None:
    assert run([0.0] * 20 + [0.9] * 2 + [0.0] * 20) == []
    assert run([0.0] * 20 + [0.9] * 4 + [0.0] * 20) == []
    assert run([0.0] * 20 + [0.9] * 2) == []


def test_speech_comes_with_its_pre_roll_and_ends_after_the_silence() -> None:
    events = run([0.0] * 20 + [0.9] * 30 + [0.0] * 40)
    onset, end = 20 * VAD_FRAME, 50 * VAD_FRAME - LAG
    assert [shape(e) for e in events] == [
        (SpeechOnset, onset),
        (onset - PRE_ROLL, end + HANGOVER, "pause"),
        (end + HANGOVER, end + HANGOVER, "endpoint"),
        (SpeechEnd, end),
    ]


def test_a_short_silence_inside_speech_is_marked_and_let_through_when_speech_goes_on() -> None:
    events = run([0.9] * 10 + [0.0] * 7 + [0.9] * 10)
    pieces = [e for e in events if isinstance(e, AudioChunk)]
    quiet = 10 * VAD_FRAME - LAG
    assert [shape(p) for p in pieces] == [
        (0, quiet + HANGOVER, "pause"),
        (quiet + HANGOVER, 27 * VAD_FRAME, "endpoint"),
    ]


def test_a_dip_between_the_thresholds_is_speech() -> None:
    events = run([0.9] * 10 + [0.4] * 30 + [0.9] * 10)
    assert [e for e in events if isinstance(e, SpeechEnd)] == [SpeechEnd(50 * VAD_FRAME)]


def test_the_pre_roll_does_not_repeat_what_was_let_through() -> None:
    events = run([0.9] * 10 + [0.0] * 8 + [0.9] * 10)
    pieces = [e for e in events if isinstance(e, AudioChunk)]
    let_through = 10 * VAD_FRAME - LAG + HANGOVER
    assert let_through > 18 * VAD_FRAME - PRE_ROLL
    assert pieces[-1].start == let_through == pieces[-2].end


def test_a_word_cut_off_by_the_end_of_the_audio_is_let_through_to_the_last_sample() -> None:
    gate = Endpointer(OPTIONS)
    samples = audio(12)[: 11 * VAD_FRAME + 100]
    events = gate.push(samples, [0.0] * 9 + [0.9] * 2) + gate.finish([0.9])
    pieces = [e for e in events if isinstance(e, AudioChunk)]
    assert [shape(p) for p in pieces] == [(4 * VAD_FRAME, len(samples), "endpoint")]
    assert SpeechEnd(len(samples)) in events


@given(
    st.lists(st.sampled_from([0.0, 0.4, 0.9]), max_size=80).map(
        lambda p: [x for x in p for _ in range(3)]
    ),
    st.lists(st.integers(1, 5_000), max_size=60),
)
def test_packets_do_not_show(probabilities: list[float], packets: list[int]) -> None:
    samples = audio(len(probabilities))
    gate, events, at, frame = Endpointer(OPTIONS), [], 0, 0
    for size in [*packets, len(samples)]:
        packet = samples[at : at + size]
        at += len(packet)
        complete = at // VAD_FRAME
        events += gate.push(packet, probabilities[frame:complete])
        frame = complete
    events += gate.finish([])
    at_once = run(probabilities)
    assert [shape(e) for e in joined(events)] == [shape(e) for e in at_once]


@given(st.lists(st.sampled_from([0.0, 0.4, 0.9]), max_size=200))
def test_pieces_are_in_order_whole_and_cover_all_speech(probabilities: list[float]) -> None:
    events = run(probabilities)
    samples = audio(len(probabilities))
    pieces = [e for e in events if isinstance(e, AudioChunk)]
    open_piece, covered = False, np.zeros(len(samples), bool)
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if open_piece and before is not None:
            assert piece.start == before.end  # no gap inside speech
        np.testing.assert_array_equal(piece.pcm, samples[piece.start : piece.end])
        covered[piece.start : piece.end] = True
        open_piece = piece.boundary != "endpoint"
    assert not open_piece
    starts = [e.at for e in events if isinstance(e, SpeechOnset)]
    stops = [e.at for e in events if isinstance(e, SpeechEnd)]
    for start, stop in zip(starts, stops, strict=True):
        assert covered[start:stop].all()
