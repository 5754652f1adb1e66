"""The segments of a recording, as a session would have them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.audio.segmentation import Mark, SegmentLimits, after_cut
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.config.settings import FrontendSettings
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions

_PACKET = SAMPLE_RATE // 10
_PAUSE_AFTER, _LONGEST = 15.0, 28.0  # as in configs/whisper.yaml


def segments(pcm: Int16, vad: VoiceActivityModel) -> Iterator[Int16]:
    """Yield the audio of each segment; silence between them is in none."""
    search = FrontendSettings().cut_search_seconds
    limits = SegmentLimits.from_seconds(pause_after=_PAUSE_AFTER, maximum=_LONGEST, search=search)
    audio, marks = np.zeros(0, np.int16), list[Mark]()

    def part(start: int, end: int) -> Int16:
        return audio[start:end]

    for piece in _pieces(pcm, vad):
        audio = np.concatenate([audio, piece.pcm])
        if piece.boundary != "none":
            marks.append(Mark(len(audio), piece.boundary == "endpoint"))
        while (end := limits.segment_end(marks, len(audio), part)) is not None:
            yield audio[:end]
            audio, marks = audio[end:], after_cut(marks, end)
    if len(audio):
        yield audio


def _pieces(pcm: Int16, vad: VoiceActivityModel) -> Iterator[AudioChunk]:
    """Yield the audio that the frontend forwards."""
    settings, voice = FrontendSettings(), VoiceState()
    gate = Endpointer(
        EndpointingOptions(settings.speech_threshold, settings.min_silence_ms, settings.pre_roll_ms)
    )
    for at in range(0, len(pcm), _PACKET):
        packet = pcm[at : at + _PACKET]
        (found,) = vad.probabilities([(voice, voice.frames(packet))])
        yield from (e for e in gate.push(packet, found.tolist()) if isinstance(e, AudioChunk))
    frames = voice.frames(np.zeros(0, np.int16), last=True)
    rest = vad.probabilities([(voice, frames)])[0].tolist() if len(frames) else []
    yield from (e for e in gate.finish(rest) if isinstance(e, AudioChunk))
