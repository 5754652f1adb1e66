"""Single words by people, recorded for children's games and a talking clock.

The table `people.yaml` maps files to words. It has each person's package, folder, pattern of file
names, and words. Only words of the vocabulary are in it.
"""

from __future__ import annotations

import random
import zlib
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from auricle.audio.decode import read_audio, resample
from auricle.audio.pcm import g711_table, to_float, to_int16
from models.training.augment.voice import change_tempo
from models.training.espeak import Speech
from models.training.packages import unpacked
from models.training.spans import Span

_TABLE = Path(__file__).with_name("people.yaml")
_RATE = 16_000
_LOUD = 0.03  # of the maximum level: quieter parts at both ends are trimmed
_WINDOW = _RATE // 100
_MARGIN = _RATE // 50
_PAUSES = (0.02, 0.35)  # s, at speed 1
_LEVEL = 0.3


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`files` is the path of a recording with {} for its name; `words` are by that name."""

    package: str
    files: str
    words: dict[str, str]
    licence: str
    who: str
    held_out: bool = False


@lru_cache(maxsize=1)
def persons() -> dict[str, Person]:
    """Return all people by name. Raises msgspec.ValidationError for a wrong table."""
    return msgspec.yaml.decode(_TABLE.read_bytes(), type=dict[str, Person])


def fetch() -> None:
    """Unpack every person's package. Raises NoPackages."""
    for person in persons().values():
        _root(person)


def _root(person: Person) -> Path:
    return unpacked(person.package, (person.package,))


class People:
    """Joins the recorded words of a text; a voice is a person."""

    def __init__(self) -> None:
        self._spoken: dict[str, dict[str, npt.NDArray[np.float32]]] = {}

    def words(self, voice: str) -> tuple[str, ...]:
        """Return the person's recorded words, sorted."""
        if voice not in persons():
            raise ValueError(f"unknown voice {voice!r}; voices: {', '.join(persons())}")
        return tuple(sorted(set(persons()[voice].words.values())))

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """The text and the speed determine the pauses between the words."""
        if unknown := set(text.split()) - set(self.words(voice)):
            raise ValueError(f"{voice} has never said {', '.join(sorted(unknown))}")
        if voice not in self._spoken:
            self._spoken[voice] = recordings(voice)
        dice = random.Random(zlib.crc32(f"{text} {speed}".encode()))
        parts, ends, spans, at = list[npt.NDArray[np.float32]](), [], [], 0
        for word in text.split():
            pause = np.zeros(int(dice.uniform(*_PAUSES) / speed * _RATE), np.float32)
            said = change_tempo(self._spoken[voice][word], speed)
            start, at = at + len(pause), at + len(pause) + len(said)
            parts += [pause, said]
            ends.append(at / _RATE)
            spans.append(Span(start / _RATE, at / _RATE))
        return Speech(to_int16(np.concatenate(parts)), _RATE, ends, spans)


def recordings(voice: str) -> dict[str, npt.NDArray[np.float32]]:
    """Return a person's words, without the silence around them, at 16 kHz."""
    person = persons()[voice]
    root = _root(person)
    return {
        word: trimmed(_read(root / person.files.format(name)))
        for name, word in person.words.items()
    }


def trimmed(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return a recording from its first loud sample to its last, at a fixed level."""
    power = np.convolve(samples**2, np.full(_WINDOW, 1 / _WINDOW), "same")
    loud = np.flatnonzero(np.sqrt(power) > _LOUD * np.sqrt(power.max()))
    kept = samples[max(0, loud[0] - _MARGIN) : loud[-1] + _MARGIN]
    return (kept * (_LEVEL / np.abs(kept).max())).astype(np.float32)


def _read(path: Path) -> npt.NDArray[np.float32]:
    if path.suffix != ".au":
        return read_audio(path)
    # The talking clock's files are G.711 at 8 kHz without a header.
    samples = g711_table("ULAW")[np.frombuffer(path.read_bytes(), np.uint8)]
    return resample(to_float(samples), 8_000)
