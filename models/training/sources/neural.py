"""Common code of the neural synthesisers: phonemes, their durations, and speech from both.

The models output only samples. They compute the duration of each phoneme in frames internally; one
more output exposes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from auricle.audio.pcm import to_int16
from models.training.espeak import Speech
from models.training.packages import from_pypi, imported
from models.training.spans import Span

# Lexicons of American and of British English, in Kokoro's alphabet.
LEXICON = "hibari-tts==0.2.1"
_MARGIN = 0.05  # s of silence kept around the words


def lexicon() -> Path:
    """Return the folder with the unpacked package. Raises NoPackages."""
    return from_pypi("hibari-tts", (LEXICON,))


def of_hibari(module: str) -> Any:
    """Import a module of that package. Raises NoPackages."""
    return imported(lexicon(), f"hibari.{module}")


@lru_cache(maxsize=2)
def _words_to_phonemes(british: bool) -> Any:
    return of_hibari("g2p").G2P(british=british)


def phonemes(text: str, *, british: bool = False) -> list[str]:
    """Return each word's phonemes in Kokoro's alphabet, a character each.

    Raises ValueError if the lexicon gives more or fewer words.
    """
    found: list[str] = _words_to_phonemes(british)(text).split()
    if len(found) != len(text.split()):
        raise ValueError(f"{text!r} is pronounced as {len(found)} words: {' '.join(found)}")
    return found


def session(model: Path, durations: str) -> onnxruntime.InferenceSession:
    """Return a single-threaded model whose last output is each phoneme's duration in frames.

    `durations` is the name of that value inside the model.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(_with_output(model.read_bytes(), durations), options)


def _with_output(model: bytes, name: str) -> bytes:
    """Return an ONNX model with one more output.

    Concatenated protocol buffers merge into one with the fields of both, so it is enough to append
    `ModelProto.graph` (7) with one `GraphProto.output` (12) of this `name` (1).
    """
    return model + _field(7, _field(12, _field(1, name.encode())))


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes of a protocol buffer; both the number and the length are below 128."""
    return bytes([number << 3 | 2, len(data)]) + data


def by_durations(
    samples: npt.NDArray[np.float32],
    rate: int,
    words: Sequence[int],
    durations: npt.NDArray[np.float32],
) -> Speech:
    """Return speech with word times, from the durations of the phonemes.

    `words` has the number of phonemes of each word. One phoneme, the pause, separates two words;
    the same number of phonemes precedes the first word and follows the last. `durations` covers all
    phonemes, in any unit.
    """
    until = np.cumsum(durations.ravel()) / durations.sum() * (len(samples) / rate)
    around = (len(until) - sum(words) - len(words) + 1) // 2
    spans, at = [], around
    for count in words:
        spans.append(Span(float(until[at - 1]), float(until[at + count - 1])))
        at += count + 1
    begin = max(0.0, spans[0].start - _MARGIN)
    kept = samples[round(begin * rate) : round((spans[-1].end + _MARGIN) * rate)]
    moved = [Span(span.start - begin, span.end - begin) for span in spans]
    ends = [*(span.start for span in moved[1:]), len(kept) / rate]
    return Speech(to_int16(kept), rate, ends, moved)
