"""Voices out of Debian's packages: another speech synthesiser, and recordings of a person."""

from __future__ import annotations

from pathlib import Path

from models.training.packages import libraries, unpacked
from models.training.sources import flite as synthesiser

# The recordings are Allison Smith's, CC-BY-SA 3.0.
_PROMPTS = ("asterisk-core-sounds-en-g722",)
_CALLS = ("asterisk-core-sounds-en-wav",)


def flite() -> tuple[Path, dict[str, str]]:
    """Return the program flite, and the environment in which it finds its libraries."""
    root = synthesiser.fetch()
    return root / "usr/bin/flite", libraries(root)


def calls() -> Path:
    """Return the folder of the same person's sentences at telephone quality: WAV at 8 kHz."""
    root = unpacked("asterisk-wav", _CALLS)
    (digits,) = root.rglob("digits")
    return digits.parent


def prompts() -> Path:
    """Return the folder of a person's recorded words: G.722 files at 16 kHz, `digits/1.g722`."""
    root = unpacked("asterisk", _PROMPTS)
    (digits,) = root.rglob("digits")
    return digits.parent
