"""espeak-ng as a library: text in, samples and word times out.

The shared library and its voices come from the `espeakng-loader` wheel, so no
system package is needed. One process can hold one espeak-ng instance.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import espeakng_loader
import numpy as np
import numpy.typing as npt

from models.training.spans import Phoneme, Span, spans

_AUDIO_SYNCHRONOUS = 2
_CHARS_UTF8 = 1
_POS_CHARACTER = 1
_PHONEME_EVENTS = 1
_IPA = 0x02
# Joins the letters of one phoneme, such as an affricate.
TIE = "^"
_RATE, _PITCH, _RANGE = 1, 3, 4
_EVENT_END, _EVENT_WORD, _EVENT_PHONEME = 0, 1, 7


class _Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Speech:
    """Samples (int16, mono) at `rate` Hz; the lists have one entry per word.

    `word_ends_seconds` has the time at which a word is over: the start of the next one. `spans` has
    the boundaries that a listener would mark, so a pause between two words is in neither.
    """

    samples: npt.NDArray[np.int16]
    rate: int
    word_ends_seconds: list[float]
    spans: list[Span]


class Espeak:
    """A synthesiser; voices are named `language+variant`, e.g. `en-us+m3`."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(espeakng_loader.get_library_path())
        self._rate = self._lib.espeak_Initialize(
            _AUDIO_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), _PHONEME_EVENTS
        )
        if self._rate <= 0:
            raise RuntimeError("espeak-ng could not be initialised")
        self._blocks: list[npt.NDArray[np.int16]] = []
        self._words: list[tuple[int, float]] = []
        self._phonemes: list[Phoneme] = []
        self._callback = _Callback(self._collect)  # kept alive for the C side
        self._lib.espeak_TextToPhonemes.restype = ctypes.c_char_p

    def _collect(self, wav: object, count: int, events: object) -> int:
        if wav and count > 0:
            self._blocks.append(np.ctypeslib.as_array(wav, (count,)).copy())  # type: ignore[arg-type]
        index = 0
        while events and events[index].type != _EVENT_END:  # type: ignore[index]
            event = events[index]  # type: ignore[index]
            if event.type == _EVENT_WORD:
                self._words.append((event.text_position - 1, event.audio_position / 1000))
            elif event.type == _EVENT_PHONEME:
                name = event.id.decode(errors="replace")
                self._phonemes.append(Phoneme(event.audio_position / 1000, name))
            index += 1
        return 0

    def speak(
        self, text: str, voice: str, words_per_minute: int, pitch: int, pitch_range: int
    ) -> Speech:
        """Synthesise `text`. Raises ValueError for a voice espeak-ng does not have."""
        self._choose(voice)
        # The library has a single callback, which another instance may have replaced.
        self._lib.espeak_SetSynthCallback(self._callback)
        for parameter, value in ((_RATE, words_per_minute), (_PITCH, pitch), (_RANGE, pitch_range)):
            self._lib.espeak_SetParameter(parameter, value, 0)
        self._blocks.clear()
        self._words.clear()
        self._phonemes.clear()
        data = text.encode()
        self._lib.espeak_Synth(data, len(data) + 1, 0, _POS_CHARACTER, 0, _CHARS_UTF8, None, None)
        self._lib.espeak_Synchronize()
        samples = np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int16)
        duration = len(samples) / self._rate
        heard = spans(text, dict(self._words), self._phonemes, duration)
        return Speech(samples, self._rate, self._word_ends(text, duration), heard)

    def phonemes(self, text: str, voice: str) -> list[str]:
        """Return each word's phonemes in IPA, with stress and with `TIE` within affricates.

        Raises ValueError for a voice espeak-ng does not have.
        """
        self._choose(voice)
        mode = _IPA | 0x80 | ord(TIE) << 8
        found = []
        for word in text.split():
            left = ctypes.c_char_p(word.encode())
            said = self._lib.espeak_TextToPhonemes(ctypes.byref(left), _CHARS_UTF8, mode)
            found.append(said.decode())
        return found

    def _choose(self, voice: str) -> None:
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice!r}")

    def _word_ends(self, text: str, duration: float) -> list[float]:
        """A word ends where the next one with a known start begins."""
        starts = dict(self._words)
        positions, at = [], 0
        for word in text.split():
            positions.append(at)
            at += len(word) + 1
        ends, end = [], duration
        for position in reversed(positions):
            ends.append(end)
            end = starts.get(position, end)
        return ends[::-1]


@lru_cache(maxsize=1)
def espeak() -> Espeak:
    """Return this process's only instance, initialised once."""
    return Espeak()
