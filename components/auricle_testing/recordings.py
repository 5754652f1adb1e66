"""The bundled recordings and their reference texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from auricle_testing.server import ROOT

DIRECTORY = ROOT / "models/demo/recordings"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.flac"))
SAMPLE_RATE = 16_000


def path(name: str) -> Path:
    """The FLAC file."""
    return DIRECTORY / f"{name}.flac"


def samples(name: str) -> np.ndarray:
    """float32 at 16 kHz."""
    audio, rate = soundfile.read(path(name), dtype="float32")
    assert rate == SAMPLE_RATE
    return np.asarray(audio, np.float32)


def words(name: str) -> str:
    """The reference text, in one line."""
    return " ".join((DIRECTORY / f"{name}.txt").read_text().split())


def minute() -> np.ndarray:
    """60 s of several recordings, the loudest first.

    A new maximum later would change the clamp floor, and with it (rightly) the features of earlier
    windows.
    """
    names = ("market", "evening", "kitchen", "hello", "station")
    parts = [1.9 * samples("hello"), *(0.8 * samples(name) for name in names * 2)]
    whole: np.ndarray = np.concatenate(parts)[: 60 * SAMPLE_RATE].astype(np.float32)
    return whole
