"""The waiting times of clients, as the frontend measures them."""

import numpy as np
import pytest

from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.exporters.timing import SessionTimer
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial

pytestmark = pytest.mark.unit
SECOND = 16_000


class Waits:
    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def audio(self, *, received: float = 0.0, speech: float = 0.0) -> None:
        pass

    def chunk_lag(self, seconds: float) -> None:
        self.seen.append(("lag", seconds))

    def first_partial(self, seconds: float) -> None:
        self.seen.append(("first", seconds))

    def stop_to_final(self, seconds: float) -> None:
        self.seen.append(("stop", seconds))


class Session:
    """Audio and events at times that the test sets."""

    def __init__(self) -> None:
        self.waits = Waits()
        self.now = 0.0
        self.texts: list[tuple[int, float]] = []
        self.timer = SessionTimer(
            self.waits, lambda: self.now, lambda ms, seconds: self.texts.append((ms, seconds))
        )

    def audio(self, at: float, start: int, end: int, boundary: str = "none") -> None:
        self.now = at
        pcm = np.zeros((end - start) * SECOND, np.int16)
        self.timer.on_audio(AudioChunk(start * SECOND, pcm, boundary))  # type: ignore[arg-type]

    def partial(self, at: float, seconds: int, text: str = "word") -> None:
        self.now = at
        self.timer.on_event(SegmentPartial(0, "", text, seconds * 1000, "English", ResumePoint()))

    def final(self, at: float, start: int, end: int) -> None:
        self.now = at
        self.timer.on_event(
            SegmentFinal(0, "word", start * 1000, end * 1000, "English", ResumePoint())
        )


def test_lag_is_from_the_audio_of_the_grid_point() -> None:
    session = Session()
    session.audio(1.0, 0, 1)
    session.audio(2.0, 1, 2)
    session.partial(2.25, 1)
    session.partial(2.5, 2)
    assert [s for s in session.waits.seen if s[0] == "lag"] == [("lag", 1.25), ("lag", 0.5)]
    assert session.texts == [(1_000, 1.25), (2_000, 0.5)]


def test_finals_are_told_with_how_late_they_came_too() -> None:
    session = Session()
    session.audio(1.0, 0, 1)
    session.audio(2.0, 1, 2, "endpoint")
    session.partial(2.25, 2)
    session.final(3.0, 0, 2)
    assert session.texts == [(2_000, 0.25), (2_000, 1.0)]
    session.final(4.0, 0, 9)  # for audio that this frontend never received
    assert len(session.texts) == 2


def test_the_first_partial_is_the_first_with_text() -> None:
    session = Session()
    session.audio(1.0, 0, 1)
    session.partial(1.5, 1, text="")
    session.audio(2.0, 1, 2)
    session.partial(2.5, 2)
    session.partial(3.0, 2)
    assert [s for s in session.waits.seen if s[0] == "first"] == [("first", 1.5)]


def test_stop_to_final_belongs_to_the_end_of_speech() -> None:
    session = Session()
    session.audio(1.0, 0, 1)
    session.final(1.1, 0, 1)  # a cut, not an end
    session.audio(2.0, 1, 2, "endpoint")
    session.audio(2.1, 5, 6, "endpoint")
    session.final(2.5, 1, 2)
    session.partial(2.6, 6)
    session.final(3.1, 5, 6)
    assert session.waits.seen == [("stop", 0.5), ("lag", 0.5), ("first", 0.5), ("stop", 1.0)]
