"""The bundled recordings: sentences outside the training set, with their text.

python -m models.training.recordings --output models/demo/recordings
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import soundfile
import soxr

from models.training.corpus import SAMPLE_RATE
from models.training.espeak import espeak
from models.training.sentences import vocabulary

# name: (voice, words per minute, pitch, noise in dBFS, sentences); the voice of station is unseen.
_RECORDINGS: dict[str, tuple[str, int, int, int, tuple[str, ...]]] = {
    "hello": ("en-us+m2", 160, 45, -60, ("hello peter where is my blue hat",)),
    "kitchen": (
        "en+f2", 155, 55, -55,
        (
            "the small cat is under the kitchen table",
            "please open the window because the kitchen is very warm",
            "my sister wants coffee and cold water",
        ),
    ),
    "market": (
        "en-us+f4", 150, 50, -60,
        (
            "hello anna we need bread and cheese from the market",
            "the bus comes at seven in the morning",
            "my phone number is four two nine zero five",
            "the market is behind the old library near the river",
            "thank you anna and goodbye",
        ),
    ),
    "station": (
        "en+m3", 150, 45, -60,
        (
            "the train comes at eighteen on saturday",
            "your father was at the station on friday",
        ),
    ),
    "evening": (
        "en-us+m7", 150, 40, -60,
        (
            "my brother drives from the village on monday",
            "there was no rain in the evening",
            "the teacher likes the green bottle and the yellow cup",
            "where is the key of the garden door",
            "laura was near the old bridge in october",
            "they have five hundred and a big white horse",
            "call the doctor in thirty minutes please",
            "nobody sees the mouse behind the chair",
            "tomorrow we take the boat on the river",
        ),
    ),
}  # fmt: skip
_PAUSE_SECONDS = 0.45


def make(output: Path) -> None:
    """Write NAME.flac and NAME.txt for each recording."""
    output.mkdir(parents=True, exist_ok=True)
    engine, words = espeak(), set(vocabulary())
    pause = np.zeros(int(_PAUSE_SECONDS * SAMPLE_RATE))
    for name, (voice, speed, pitch, noise, sentences) in _RECORDINGS.items():
        if unknown := set(" ".join(sentences).split()) - words:
            raise ValueError(f"{name} has words the model does not know: {sorted(unknown)}")
        parts = [pause / 2]
        for sentence in sentences:
            speech = engine.speak(sentence, voice, speed, pitch, 50)
            parts += [soxr.resample(speech.samples / 32768.0, speech.rate, SAMPLE_RATE), pause]
        audio = np.concatenate(parts)
        hiss = np.random.default_rng(len(name)).standard_normal(len(audio))
        audio = 0.5 * audio / np.abs(audio).max() + 10 ** (noise / 20) * hiss
        soundfile.write(output / f"{name}.flac", audio, SAMPLE_RATE, subtype="PCM_16")
        (output / f"{name}.txt").write_text("\n".join(sentences) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    make(parser.parse_args().output)
