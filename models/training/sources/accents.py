"""espeak-ng's English voices outside the set `train`: more accents, Klatt's synthesis."""

from __future__ import annotations

import zlib

from models.training.espeak import Speech, espeak
from models.training.voices import TRAIN_VARIANTS

_ACCENTS = ("en-gb-scotland", "en-029", "en-gb-x-gbclan")
_KLATT = ("klatt", "klatt2", "klatt4", "klatt6")
VOICES = tuple(
    [f"{accent}+{variant}" for accent in _ACCENTS for variant in TRAIN_VARIANTS]
    + [f"{accent}+{variant}" for accent in ("en-us", "en-gb-x-rp") for variant in _KLATT]
)
_WORDS_A_MINUTE, _PITCH, _RANGE = 160, (25, 75), (30, 70)


class Accents:
    """A synthesiser; voices are named as in `espeak.Espeak`."""

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """The voice and the speed determine pitch and pitch range."""
        draw = zlib.crc32(f"{voice} {speed}".encode())
        pitch = _PITCH[0] + draw % (_PITCH[1] - _PITCH[0])
        spread = _RANGE[0] + (draw >> 8) % (_RANGE[1] - _RANGE[0])
        return espeak().speak(text, voice, round(_WORDS_A_MINUTE * speed), pitch, spread)
