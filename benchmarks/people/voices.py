"""Word error rates of the bundled model in three kinds of voices.

`espeak_unseen`: voices of espeak-ng that are not in training, which has others. `engine_unseen`:
flite's voices `rms` and `awb`. `person_unseen`: numbers, days and months by a person. Neither of
the last two is in training.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import jiwer
import numpy as np
import torch

from auricle.audio.decode import read_audio
from benchmarks.people.packages import flite, prompts
from benchmarks.prepared import ROOT, corpus
from models.training.corpus import SAMPLE_RATE
from models.training.evaluate import utterances
from models.training.reference import Reference
from models.training.sentences import SentenceMaker, vocabulary
from models.training.sources import SOURCES

FLITE_VOICES = SOURCES["flite"].held_out
MODEL = ROOT / "models/demo"
_LENGTHS = (1, 2, 4, 8)  # sentences of an utterance, as the model card has them
_ROW = (3, 6)  # words of a person that follow each other
_PAUSES = (0.1, 0.5)  # between them, s
_AROUND = 0.3  # silence before the first word and after the last, s
_SECONDS = 60
# The words of the numbered recordings, in order.
_NUMBERED = {
    "{}": """zero one two three four five six seven eight nine ten eleven twelve thirteen
        fourteen fifteen sixteen seventeen eighteen nineteen""",
    "{}0": "_ _ twenty thirty forty fifty sixty seventy eighty ninety",
    "day-{}": "sunday monday tuesday wednesday thursday friday saturday",
    "mon-{}": """january february march april may june july august september october november
        december""",
}
_NAMED = ("hundred", "today", "tomorrow", "yesterday")
Said = tuple[np.ndarray, str]  # float32 at 16 kHz, and the words


@dataclass(frozen=True)
class Scale:
    """Utterances of each length, sentences of each voice of flite, rows of a person's words."""

    per_length: int
    sentences: int
    rows: int


FULL, QUICK, SMOKE = Scale(60, 100, 60), Scale(15, 30, 20), Scale(1, 1, 1)


def figures(scale: Scale, model: Path = MODEL) -> dict[str, float]:
    """Return the word error rates, as fractions; more written than spoken words may exceed 1.

    Each recording is decoded whole and greedily, in one process. Raises NoPackages.
    """
    torch.set_num_threads(2)
    reference = Reference(model)
    found = {"wer_espeak_unseen": _wer(reference, _espeak(scale))}
    of_flite: list[Said] = []
    for voice in FLITE_VOICES:
        said = list(_flite(voice, scale.sentences))
        found[f"wer_engine_unseen_{voice}"] = _wer(reference, said)
        of_flite += said
    found["wer_engine_unseen"] = _wer(reference, of_flite)
    words = person()
    by_itself = [(_around(samples), word) for word, samples in words.items()]
    in_rows = list(_rows(words, scale.rows))
    found["wer_person_unseen_words"] = _wer(reference, by_itself)
    found["wer_person_unseen_rows"] = _wer(reference, in_rows)
    found["wer_person_unseen"] = _wer(reference, by_itself + in_rows)
    return found


def _wer(reference: Reference, said: Sequence[Said]) -> float:
    heard = [reference.text(reference.tokens(samples)) for samples, _ in said]
    return float(jiwer.wer([words for _, words in said], heard))


def _espeak(scale: Scale) -> list[Said]:
    unseen = corpus("unseen")
    return [row for n in _LENGTHS for row in utterances(unseen, n, scale.per_length)]


def _flite(voice: str, count: int) -> Iterator[Said]:
    """Yield sentences that are in no training set."""
    program, environment = flite()
    maker = SentenceMaker(seed=31)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.wav"
        for _ in range(count):
            words = maker.sentence()
            command = [str(program), "-voice", voice, "-t", words, "-o", str(path)]
            subprocess.run(command, env=environment, timeout=_SECONDS, check=True)
            yield _around(read_audio(path)), words


def person() -> dict[str, np.ndarray]:
    """Return a person's recordings of words in the model's vocabulary, by word."""
    folder, known = prompts() / "digits", set(vocabulary())
    return {word: _g722(folder / f"{name}.g722") for word, name in files().items() if word in known}


def files() -> dict[str, str]:
    """Return the words that are recorded, each with the name of its file."""
    found = {word: word for word in _NAMED}
    for name, words in _NUMBERED.items():
        spoken = enumerate(words.split())
        found |= {word: name.format(number) for number, word in spoken if word != "_"}
    return found


def _g722(path: Path) -> np.ndarray:
    """Decode a file of bare G.722, which has no header, to float32 at 16 kHz."""
    with av.open(str(path), format="g722") as container:
        blocks = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    samples: np.ndarray = np.concatenate(blocks).astype(np.float32) / 32768.0
    return samples


def _rows(words: dict[str, np.ndarray], count: int) -> Iterator[Said]:
    """Yield words in a row, like a telephone number."""
    dice = random.Random(32)
    for _ in range(count):
        chosen = dice.sample(sorted(words), dice.randint(*_ROW))
        parts = []
        for word in chosen:
            parts += [words[word], _silence(dice.uniform(*_PAUSES))]
        yield _around(np.concatenate(parts)), " ".join(chosen)


def _around(samples: np.ndarray) -> np.ndarray:
    return np.concatenate([_silence(_AROUND), samples, _silence(_AROUND)])


def _silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * SAMPLE_RATE), np.float32)
