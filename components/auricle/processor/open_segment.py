"""The segment being spoken: its audio, where it pauses, and its hypothesis so far."""

from __future__ import annotations

from auricle.checkpoint.geometry import Geometry
from auricle.processor.inbox import Audio
from auricle.processor.segments import Mark
from auricle.processor.stability import Stability
from auricle.processor.windows import KeyScheme, SegmentAudio


class OpenSegment:
    """`passed` is the last grid point decoded or skipped, in samples of the segment."""

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
        self._geometry = geometry
        self._scheme = scheme

    @property
    def speech_ended(self) -> bool:
        """Whether what comes next belongs to another segment."""
        return bool(self.marks) and self.marks[-1].ends_speech

    def add(self, audio: Audio) -> None:
        """Append what was received next."""
        if self.audio.samples == 0:
            self.start = audio.start
        if audio.features is not None:
            self.audio.push_features(audio.features)
        else:
            self.audio.push(audio.pcm)
        if audio.boundary != "none":
            self.marks.append(Mark(self.audio.samples, audio.boundary == "endpoint"))

    def after(self, offset: int, *, number: int) -> OpenSegment:
        """The next segment: what lies beyond `offset`."""
        following = OpenSegment(number, self.start + offset, self._geometry, self._scheme)
        rest = self.audio.pcm(offset, self.audio.samples)
        if len(rest):
            following.audio.push(rest)
            following.marks = [
                Mark(m.offset - offset, m.ends_speech) for m in self.marks if m.offset > offset
            ]
        return following
