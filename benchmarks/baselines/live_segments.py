"""What a live baseline decodes: the whole session, or segments as auricle cuts them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.frontend.listening.endpointing import EndpointingOptions, Piece, SpeechGate
from auricle.settings import FrontendSettings

# (session sample it begins at, samples, whether a segment ends with it)
Heard = tuple[int, np.ndarray, bool]


class Whole:
    """As published, the session is one growing segment."""

    def __init__(self) -> None:
        self._samples = 0

    def push(self, pcm: np.ndarray) -> Iterator[Heard]:
        """Return the next samples."""
        yield self._samples, pcm, False
        self._samples += len(pcm)

    def end(self) -> Iterator[Heard]:
        """Return nothing, as no samples are held back."""
        return iter(())


class Endpointing:
    """Segments that auricle's voice activity detection and rules would cut."""

    def __init__(self) -> None:
        defaults = FrontendSettings()
        self._gate = SpeechGate(
            EndpointingOptions(
                defaults.speech_threshold, defaults.min_silence_ms, defaults.pre_roll_ms
            )
        )
        self._limits = SegmentLimits.from_seconds(
            pause_after=defaults.pause_after_seconds,
            maximum=defaults.max_segment_seconds,
            search=defaults.cut_search_seconds,
        )
        self._model = _model()
        self._voice = VoiceState()
        self._length = 0  # of the open segment

    def push(self, pcm: np.ndarray) -> Iterator[Heard]:
        """Return the next samples without silence between segments."""
        frames = self._voice.frames(pcm)
        (found,) = self._model.probabilities([(self._voice, frames)])
        yield from self._pieces(self._gate.push(pcm, found.tolist()))

    def end(self) -> Iterator[Heard]:
        """Return the samples that were held back."""
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        (found,) = self._model.probabilities([(self._voice, frames)])
        yield from self._pieces(self._gate.finish(found.tolist()))

    def _pieces(self, events: list) -> Iterator[Heard]:
        for event in events:
            if not isinstance(event, Piece):
                continue
            self._length += len(event.pcm)
            long = self._length >= self._limits.maximum
            pause = event.boundary == "pause" and self._length >= self._limits.pause_after
            ends = event.boundary == "endpoint" or pause or long
            yield event.start, event.pcm, ends
            if ends:
                self._length = 0


_MODELS: list[VoiceActivityModel] = []


def _model() -> VoiceActivityModel:
    """Return the detector, which all sessions share on one event loop."""
    if not _MODELS:
        _MODELS.append(VoiceActivityModel())
    return _MODELS[0]
