"""The bundled recordings, sentence by sentence, cut as a server may cut them.

Voice activity detection, a client's packets and a file's conversion each shift the start of a
segment by some milliseconds, and the tests of the graph expect the same text from all of them. A
checkpoint that recognises a sentence only with one particular start is at the limit of its ability.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auricle.audio.decode import read_audio
from models.training.corpus import SAMPLE_RATE

RECORDINGS = Path(__file__).parents[1] / "demo/recordings"
# Not a multiple of a mel frame's 10 ms, so that frames fall elsewhere each time.
_STEP = SAMPLE_RATE * 13 // 1000
_FRAME = SAMPLE_RATE // 50
_SILENT = 10 ** (-45 / 20)  # noise in the recordings is 10 dB below
_PAUSE = 0.3  # s; between sentences there are 0.45

Samples = npt.NDArray[np.float32]


def sentences(recording: Path) -> list[tuple[Samples, str]]:
    """Return samples and text of a FLAC file's sentences, each with half of the pauses around it.

    Raises ValueError if the pauses do not match the lines of the text.
    """
    audio = read_audio(recording)
    lines = recording.with_suffix(".txt").read_text().splitlines()
    parts = _parts(audio)
    if len(parts) != len(lines):
        raise ValueError(f"{recording} has {len(parts)} sentences, its text {len(lines)}")
    return list(zip(parts, lines, strict=True))


def _parts(audio: Samples) -> list[Samples]:
    frames = audio[: len(audio) // _FRAME * _FRAME].reshape(-1, _FRAME)
    loud = np.flatnonzero(np.sqrt((frames**2).mean(axis=1)) > _SILENT)
    after = np.flatnonzero(np.diff(loud) * _FRAME > _PAUSE * SAMPLE_RATE)
    cuts = [int(loud[i] + loud[i + 1]) // 2 * _FRAME for i in after]
    return np.split(audio, cuts)


def from_beginnings(count: int) -> Iterator[tuple[Samples, str]]:
    """Yield every sentence with `count` different starts, each 13 ms earlier than the last."""
    for recording in sorted(RECORDINGS.glob("*.flac")):
        for audio, words in sentences(recording):
            for earlier in range(count):
                yield np.concatenate([np.zeros(earlier * _STEP, np.float32), audio]), words
