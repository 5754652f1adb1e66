"""The input of a live baseline's decodes: the whole session, or segments cut by auricle's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.config.settings import FrontendSettings
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.launcher.config import load_config, settings_for

_CONFIG = Path(__file__).parents[2] / "configs/demo.yaml"
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


class Cutter:
    """Cuts speech into segments of auricle's lengths. Pure.

    To the baseline's advantage, a segment of the greatest length ends with the current piece and
    not at an earlier quiet point, so that nothing is decoded again.
    """

    def __init__(self, limits: SegmentLimits) -> None:
        self._limits = limits
        self._length = 0  # of the open segment

    def push(self, events: Iterable[AudioEvent]) -> Iterator[Heard]:
        """Return the speech among `events`."""
        for event in events:
            if not isinstance(event, AudioChunk):
                continue
            self._length += len(event.pcm)
            long = self._length >= self._limits.maximum
            pause = event.boundary == "pause" and self._length >= self._limits.pause_after
            ends = event.boundary == "endpoint" or pause or long
            yield event.start, event.pcm, ends
            if ends:
                self._length = 0


class Endpointing:
    """Segments that auricle's voice activity detection and rules would cut."""

    def __init__(self, settings: FrontendSettings) -> None:
        self._gate = Endpointer(
            EndpointingOptions.over(settings, threshold=None, min_silence_ms=None, pre_roll_ms=None)
        )
        self._cutter = Cutter(limits_of(settings))
        self._model = _model()
        self._voice = VoiceState()

    def push(self, pcm: np.ndarray) -> Iterator[Heard]:
        """Return the next samples without silence between segments."""
        frames = self._voice.frames(pcm)
        (found,) = self._model.probabilities([(self._voice, frames)])
        yield from self._cutter.push(self._gate.push(pcm, found.tolist()))

    def end(self) -> Iterator[Heard]:
        """Return the samples that were held back."""
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        (found,) = self._model.probabilities([(self._voice, frames)])
        yield from self._cutter.push(self._gate.finish(found.tolist()))


def as_delivered() -> FrontendSettings:
    """Return auricle's settings in the comparison, which a baseline gets too."""
    settings: FrontendSettings = settings_for("Frontend", load_config(_CONFIG), str(_CONFIG))
    return settings


def limits_of(settings: FrontendSettings) -> SegmentLimits:
    """Return the segments' lengths."""
    return SegmentLimits.from_seconds(
        pause_after=settings.pause_after_seconds,
        maximum=settings.max_segment_seconds,
        search=settings.cut_search_seconds,
    )


_MODELS: list[VoiceActivityModel] = []


def _model() -> VoiceActivityModel:
    """Return the detector, which all sessions share on one event loop."""
    if not _MODELS:
        _MODELS.append(VoiceActivityModel())
    return _MODELS[0]
