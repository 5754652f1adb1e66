"""The state of speakers is part of the resume point, of the link and of the delivery tracker."""

from __future__ import annotations

import pytest

from auricle.frontend.link.session_line import PROCESSOR_LOST, SessionLine
from auricle.frontend.protocols.stream.resume import DeliveryTracker
from auricle.protocol.annotation import SegmentSpeakers
from auricle.protocol.sessions import OpenSession, ResumePoint, SegmentFinal, SessionReady

pytestmark = pytest.mark.unit
OPENED = OpenSession("s", "t", None, "", 640, diarize=True)


def final(number: int, state: bytes = b"") -> SegmentFinal:
    resume = ResumePoint(segment=number + 1, speakers=state)
    return SegmentFinal(number, "one", 0, 1000, "English", resume)


def test_the_next_processor_gets_what_was_known_when_speakers_were_told() -> None:
    line = SessionLine(OPENED)
    for event in (SessionReady("s"), final(0), SegmentSpeakers(0, state=b"+")):
        assert line.receive(event)
    line.lost()
    opened = line.open_message()
    assert (opened.resume.speakers, opened.resume.segment, opened.diarize) == (b"+", 1, True)


def test_speakers_that_were_lost_with_a_processor_are_said_to_be_missing() -> None:
    line = SessionLine(OPENED)
    for event in (SessionReady("s"), final(0), final(1), SegmentSpeakers(0, state=b"+")):
        line.receive(event)
    line.lost()
    assert line.lost_annotations() == [SegmentSpeakers(1, missing=PROCESSOR_LOST, state=b"+")]
    assert line.lost_annotations() == []


def test_a_resume_token_has_the_voices_of_what_its_client_was_told() -> None:
    delivery = DeliveryTracker()
    delivery.sent_text(final(0))
    assert delivery.state().point.speakers == b""
    delivery.sent_speakers(SegmentSpeakers(0, state=b"+"))
    told = delivery.state()
    assert (told.point.speakers, told.point.segment) == (b"+", 1)
    delivery = DeliveryTracker(told)
    assert delivery.state().point.speakers == b"+"
