"""espeak-ng voices for training, and held-out voices.

A held-out variant is not used for training in any accent or language.
"""

from __future__ import annotations

from models.training.languages import DEFAULT, language

TRAIN_VARIANTS = (
    "m1 m2 m4 m6 m7 f1 f2 f4 Alex Andy Annie adam belinda ed"
    " edward linda rob paul max Michael Gene anika antonio benjamin quincy aunty"
).split()
UNSEEN_VARIANTS = ("m3", "f3", "m8", "Mike", "david", "Andrea", "john", "travis")


def train_voices(code: str) -> tuple[str, ...]:
    """Return the training voices of a language."""
    return tuple(f"{a}+{v}" for a in language(code).accents for v in TRAIN_VARIANTS)


def unseen_voices(code: str) -> tuple[str, ...]:
    """Return the held-out voices of a language."""
    return tuple(f"{a}+{v}" for a in language(code).accents for v in UNSEEN_VARIANTS)


TRAIN_VOICES, UNSEEN_VOICES = train_voices(DEFAULT), unseen_voices(DEFAULT)
