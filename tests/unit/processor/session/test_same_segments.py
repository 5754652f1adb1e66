"""The same speech has the same segments, as a recording and as a live session."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.audio.pcm import milliseconds
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.recordings.parts import PartCutter
from auricle.processor.session.actions import Decode, EncodeAhead, Finish, Send
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.protocol.sessions import OpenSession, SegmentFinal
from tests.unit.histories import GEOMETRY, KEYS, PROMPT, RULES, SHORTEST

pytestmark = pytest.mark.unit
MAXIMUM = RULES.segments.limits.maximum
LENGTHS = st.one_of(st.integers(1, 2 * MAXIMUM), st.sampled_from([1_600, MAXIMUM]))
SPEECH = st.lists(
    st.tuples(LENGTHS, st.sampled_from(["none", "pause", "endpoint"])), min_size=1, max_size=12
)
Times = list[tuple[int, int]]


def pieces(lengths: list[tuple[int, str]]) -> list[AudioChunk]:
    """Noise in which no two points are equally quiet, without the silence after endpoints."""
    at, made, noise = 0, [], np.random.default_rng(0)
    for samples, boundary in lengths:
        pcm = noise.integers(-3_000, 3_000, samples).astype(np.int16)
        made.append(AudioChunk(at, pcm, boundary))  # type: ignore[arg-type]
        at += samples + (800 if boundary == "endpoint" else 0)
    return made


def of_a_recording(speech: list[AudioChunk]) -> Times:
    cutter = PartCutter(RULES.segments.limits)
    parts = [*cutter.push(speech), *cutter.finish()]
    long_enough = [part for part in parts if part.end - part.start >= SHORTEST]
    return [(milliseconds(part.start), milliseconds(part.end)) for part in long_enough]


def of_a_session(speech: list[AudioChunk], *, partials: bool) -> Times:
    """The model generates no text, so no committed text restricts the cut."""
    opened = OpenSession("s", "t", None, "", 640, partials=partials)
    session = SessionStateMachine(opened, RULES, PROMPT, GEOMETRY, KEYS, None)
    found: Times = []

    def work() -> None:
        while (action := session.next_action()) is not None:
            match action:
                case Send(event=SegmentFinal(start_ms=start, end_ms=end)):
                    found.append((start, end))
                case Decode():
                    session.decoded(())
                case EncodeAhead():
                    session.encoded_ahead()
                case Finish():
                    return

    for piece in speech:
        session.push(piece.start, piece.pcm.astype("<i2").tobytes(), piece.boundary)
        work()
    session.end(speech[-1].end)
    work()
    return found


@given(SPEECH)
def test_a_recording_is_cut_where_a_session_is(lengths: list[tuple[int, str]]) -> None:
    speech = pieces(lengths)
    assert of_a_recording(speech) == of_a_session(speech, partials=False)


@given(SPEECH)
def test_a_live_session_is_cut_there_too(lengths: list[tuple[int, str]]) -> None:
    speech = pieces(lengths)
    assert of_a_session(speech, partials=True) == of_a_session(speech, partials=False)
