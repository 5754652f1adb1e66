"""Which espeak-ng voices are trained on, and which are kept unseen.

A held-out variant is never trained in any accent.
"""

from __future__ import annotations

ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-us-nyc", "en-029", "en-gb-x-gbcwmd")
TRAIN_VARIANTS = (
    "m1",
    "m2",
    "m4",
    "m5",
    "m6",
    "m7",
    "f1",
    "f2",
    "f4",
    "f5",
    "Alex",
    "Andy",
    "Annie",
    "adam",
    "belinda",
    "ed",
    "edward",
    "linda",
    "steph",
    "rob",
    "robert",
    "paul",
    "victor",
    "max",
    "Michael",
    "Lee",
    "Gene",
    "anika",
    "antonio",
    "benjamin",
    "caleb",
    "quincy",
    "aunty",
)
UNSEEN_VARIANTS = ("m3", "f3", "m8", "Mike", "david", "Andrea", "john", "travis")

TRAIN_VOICES = tuple(f"{a}+{v}" for a in ACCENTS for v in TRAIN_VARIANTS)
UNSEEN_VOICES = tuple(f"{a}+{v}" for a in ACCENTS for v in UNSEEN_VARIANTS)
