"""The diarization error rate of conversations of synthetic voices, by pyannote.metrics.

    python -m benchmarks.annotations --out FILE --only speakers

needs `make bench-env`, and apt-get to download flite, whose voices were made from recordings of
people. Speech is detected and segmented as in a frontend and a processor, and the speaker model is
the diarize pool's. Nothing was tuned on these voices: clustering was tuned on espeak-ng's training
variants. Some of espeak-ng's unseen variants are hard to distinguish by ear.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from auricle.annotation.speakers.model import MOST_SPEAKERS, SpeakerSegment
from auricle.annotation.speakers.windowed import WindowedModel
from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME, VoiceActivitySequence, VoiceState
from auricle.config.settings import CommonSettings, FrontendSettings
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from benchmarks.annotations.graph import SPEAKERS
from benchmarks.annotations.mixtures import FLITE_VOICES, RATE, Mixture, Voices, converse
from benchmarks.annotations.scoring import Scored, Spans, error_rates
from benchmarks.baselines.client import PYTHON
from benchmarks.harness import LeftOut, Run
from models.training.packages import NoPackages
from models.training.voices import UNSEEN_VARIANTS

_SEED = 5
# espeak-ng varies its speech randomly from run to run: nine conversations of its voices had error
# rates from 6 to 16%.
_TIMES = 6
_APART, _TOGETHER = (0.05, 0.7), (-1.2, 0.4)  # seconds between turns; negative: overlap


def speaker_figures(run: Run) -> dict[str, Any]:
    """Return the error rates without and with overlap, in all voices and by kind of voice.

    Raises LeftOut without the environment of the scorer, or without flite.
    """
    if not PYTHON.exists():
        raise LeftOut("pyannote.metrics, which scores speakers, is missing: run `make bench-env`")
    try:
        voices = Voices()
    except NoPackages as why:
        raise LeftOut(str(why)) from None
    kinds = {
        "espeak_unseen": [f"en-us+{name}" for name in UNSEEN_VARIANTS],
        "flite": [f"flite+{name}" for name in FLITE_VOICES],
    }
    model = WindowedModel(SPEAKERS, "cpu", threads=1, most_windows=32)
    changes, scored = 0, list[Scored]()
    for figure, gap in (("der_no_overlap", _APART), ("der_overlap", _TOGETHER)):
        for kind, names in kinds.items():
            rng = np.random.default_rng(_SEED)
            for count in (2, 3, 4) * run.of(_TIMES, 1):
                chosen = [str(name) for name in rng.choice(names, count, replace=False)]
                mixture = converse(voices, chosen, rng, seconds=60, gap=gap)
                truth = tuple((one.voice, one.start, one.end) for one in mixture.truth)
                spans, changed = diarized(mixture, model)
                scored.append(Scored((figure, f"{figure}_{kind}"), truth, spans))
                changes += changed
    return {
        "label_changes_after_settling": changes,
        "speaker_conversations": len(scored),
        "voices": sorted(kinds),
        **error_rates(scored),
    }


def diarized(mixture: Mixture, model: WindowedModel) -> tuple[Spans, int]:
    """Return the detected speakers, and the number of segments that a repeated request labels
    differently."""
    spans, state, changes = list[tuple[str, float, float]](), b"", 0
    for start, pcm in segments(mixture.samples):
        segment = SpeakerSegment(pcm, state, MOST_SPEAKERS)
        (found,) = model.diarize([segment])
        again, _ = model.diarize([segment, SpeakerSegment(pcm[::-1].copy(), b"", MOST_SPEAKERS)])
        changes += again.turns != found.turns
        state = found.state
        for turn in found.turns:
            begin, end = (start + turn.start) / RATE, (start + turn.end) / RATE
            spans.append((str(turn.speaker), begin, end))
    return tuple(spans), changes


def segments(samples: Int16) -> Iterator[tuple[int, Int16]]:
    """Yield the first sample and the samples of each segment, as a live session has them."""
    defaults = FrontendSettings()
    gate = Endpointer(
        EndpointingOptions(defaults.speech_threshold, defaults.min_silence_ms, defaults.pre_roll_ms)
    )
    voice, state, pieces = VoiceActivitySequence(), VoiceState(), list[AudioChunk]()
    probabilities = voice.probabilities(state, state.frames(samples)).tolist()
    for frame, probability in enumerate(probabilities):
        pcm = samples[frame * VAD_FRAME : (frame + 1) * VAD_FRAME]
        for event in gate.push(pcm, [probability]):
            if isinstance(event, AudioChunk):
                pieces.append(event)
                if _ends(pieces, defaults):
                    yield _joined(pieces)
                    pieces = []
    if pieces:
        yield _joined(pieces)


def _ends(pieces: list[AudioChunk], limits: CommonSettings) -> bool:
    seconds = sum(len(piece.pcm) for piece in pieces) / RATE
    boundary = pieces[-1].boundary
    pause = boundary == "pause" and seconds >= limits.pause_after_seconds
    return boundary == "endpoint" or pause or seconds >= limits.max_segment_seconds


def _joined(pieces: list[AudioChunk]) -> tuple[int, Int16]:
    return pieces[0].start, np.concatenate([piece.pcm for piece in pieces])
