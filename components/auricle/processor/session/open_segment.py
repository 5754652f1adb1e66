"""The open segment of a session: its audio, its pauses and its hypothesis."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from auricle.audio.segmentation import Mark, after_cut
from auricle.checkpoints.geometry import Geometry
from auricle.processor.session.inbox import ReceivedAudio
from auricle.processor.session.stability import Stability
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.protocol.sessions import ResumePoint


class OpenSegment:
    """The segment that is being spoken. Offsets are in samples from the segment's start.

    `passed` is the offset of the last decode or skipped grid point. `ahead` is the offset up to
    which audio has been encoded ahead of a decode. `cut` is where the segment must end, because an
    answer for more of it ended early. `trusts_context`: the client's context is part of its
    prompts, see `context_guard.py`.
    """

    def __init__(
        self,
        number: int,
        start: int,
        geometry: Geometry,
        scheme: KeyScheme,
        stability: Stability | None = None,
    ) -> None:
        self.number = number
        self.start = start  # session sample
        self.audio = SegmentAudio(geometry, scheme)
        self.marks: list[Mark] = []
        self.stability = stability or Stability()
        self.passed = 0
        self.ahead = 0
        self.cut: int | None = None
        self.trusts_context = True
        # The end offset of every push, ascending, and its time of arrival.
        self._ends: list[int] = []
        self._arrived: list[float] = []
        self._geometry = geometry
        self._scheme = scheme

    @property
    def speech_ended(self) -> bool:
        """Whether speech has ended, so that the next audio belongs to another segment."""
        return bool(self.marks) and self.marks[-1].ends_speech

    def add(self, audio: ReceivedAudio) -> None:
        """Append the next audio. Raises ProtocolError if samples and features are mixed."""
        if self.audio.samples == 0:
            self.start = audio.start
        if audio.features is not None:
            self.audio.push_features(audio.features)
        else:
            self.audio.push(audio.pcm)
        self._ends.append(self.audio.samples)
        self._arrived.append(audio.arrived)
        if audio.boundary != "none":
            self.marks.append(Mark(self.audio.samples, audio.boundary == "endpoint"))

    def arrived(self, offset: int) -> float:
        """Return when the segment's first `offset` samples had arrived, in the clock's seconds."""
        return self._arrived[min(bisect_left(self._ends, offset), len(self._ends) - 1)]

    def resume_point(self, context: str, language: str) -> ResumePoint:
        """Return where another processor can continue; `context` is the text before here, in
        `language`."""
        return ResumePoint(
            segment=self.number,
            segment_start=self.start,
            committed_tokens=self.stability.committed,
            committed_before=self.stability.committed_before,
            context=context,
            language=language,
        )

    def after(self, offset: int, *, number: int) -> OpenSegment:
        """Return the next segment, with the audio and marks after `offset`."""
        following = OpenSegment(number, self.start + offset, self._geometry, self._scheme)
        rest = self.audio.pcm(offset, self.audio.samples)
        if len(rest):
            following.audio.push(rest)
            following._ends = [end - offset for end in self._ends if end > offset]
            following._arrived = self._arrived[len(self._ends) - len(following._ends) :]
            following.marks = after_cut(self.marks, offset)
        return following


@dataclass(frozen=True)
class EndedSegment:
    """A segment of `samples` samples after its last decode; `encoder` has its windows."""

    segment: OpenSegment
    samples: int
    encoder: int | None = None  # an encode worker
