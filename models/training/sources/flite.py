"""flite as a library: text in, samples and word ends out."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from models.training.espeak import Speech
from models.training.packages import unpacked
from models.training.sources.engines import speech

PACKAGES = ("flite", "libflite1")
_END = b"R:SylStructure.daughtern.daughtern.R:Segment.end"
# The libraries that the voices' own libraries need, in this order.
_SHARED = ("libflite", "libflite_usenglish", "libflite_cmulex")


def fetch() -> Path:
    """Return the folder with the unpacked package. Raises NoPackages."""
    return unpacked("flite", PACKAGES)


class _Wave(ctypes.Structure):
    """cst_wave of cst_wave.h."""

    _fields_ = [
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("count", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    ]


class _Voice(ctypes.Structure):
    """The beginning of cst_voice of cst_voice.h."""

    _fields_ = [("name", ctypes.c_char_p), ("features", ctypes.c_void_p)]


_POINTERS = {
    "flite_synth_text": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.POINTER(_Voice)]),
    "utt_wave": (ctypes.POINTER(_Wave), [ctypes.c_void_p]),
    "utt_relation": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "relation_head": (ctypes.c_void_p, [ctypes.c_void_p]),
    "item_next": (ctypes.c_void_p, [ctypes.c_void_p]),
    "flite_ffeature_float": (ctypes.c_float, [ctypes.c_void_p, ctypes.c_char_p]),
    "flite_feat_set_float": (None, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]),
    "delete_utterance": (None, [ctypes.c_void_p]),
}


class Flite:
    """A synthesiser; voices are named as in `flite -lv`: `slt`, `kal16`."""

    def __init__(self) -> None:
        (self._folder,) = {path.parent for path in fetch().rglob("libflite.so.1")}
        self._lib, *_ = [self._load(name) for name in _SHARED]
        for name, (result, arguments) in _POINTERS.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        self._lib.flite_init()
        self._voices: dict[str, ctypes._Pointer[_Voice]] = {}

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for a voice flite does not have."""
        chosen = self._voice(voice)
        stretch = ctypes.c_float(1 / speed)
        self._lib.flite_feat_set_float(chosen.contents.features, b"duration_stretch", stretch)
        said = self._lib.flite_synth_text(text.encode(), chosen)
        try:
            wave = self._lib.utt_wave(said).contents
            samples = np.ctypeslib.as_array(wave.samples, (wave.count,)).astype(np.int16)
            return speech(samples, wave.rate, text, self._ends(said))
        finally:
            self._lib.delete_utterance(said)

    def _ends(self, said: int) -> list[float]:
        ends = []
        word = self._lib.relation_head(self._lib.utt_relation(said, b"Word"))
        while word:
            ends.append(float(self._lib.flite_ffeature_float(word, _END)))
            word = self._lib.item_next(word)
        return ends

    def _voice(self, name: str) -> ctypes._Pointer[_Voice]:
        if name not in self._voices:
            library = f"libflite_cmu_us_{name}"
            if not (self._folder / f"{library}.so.1").exists():
                raise ValueError(f"flite has no voice {name!r}")
            register = self._load(library)[f"register_cmu_us_{name}"]
            register.restype, register.argtypes = ctypes.POINTER(_Voice), [ctypes.c_void_p]
            self._voices[name] = register(None)
        return self._voices[name]

    def _load(self, name: str) -> ctypes.CDLL:
        path: Path = self._folder / f"{name}.so.1"
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
