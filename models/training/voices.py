"""Which espeak-ng voices are trained on, and which are kept unseen.

A held-out variant is never trained in any accent.
"""

from __future__ import annotations

ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-us-nyc", "en-gb-x-gbcwmd")
TRAIN_VARIANTS = (
    "m1 m2 m4 m6 m7 f1 f2 f4 Alex Andy Annie adam belinda ed"
    " edward linda rob paul max Michael Gene anika antonio benjamin quincy aunty"
).split()
UNSEEN_VARIANTS = ("m3", "f3", "m8", "Mike", "david", "Andrea", "john", "travis")

TRAIN_VOICES = tuple(f"{a}+{v}" for a in ACCENTS for v in TRAIN_VARIANTS)
UNSEEN_VOICES = tuple(f"{a}+{v}" for a in ACCENTS for v in UNSEEN_VARIANTS)
