"""Corpora and checkpoints of benchmarks, which are made at the first use.

Everything lies under `build/` of the repository and stays there. Fixed seeds determine sentences,
voices and weights; the samples that espeak-ng synthesises still vary from run to run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import heavier, whispers
from benchmarks.checkpoints import SIZES, write_checkpoint
from models.training import corpus as synthetic
from models.training.corpus import Corpus
from models.training.languages import DEFAULT

ROOT = Path(__file__).parent.parent
_CORPUS = ROOT / "build/demo-corpus"
_CHECKPOINTS = ROOT / "build/checkpoints"


def corpus(name: str, directory: Path = _CORPUS, language: str = DEFAULT) -> Corpus:
    """Return recordings of `seen` or `unseen` voices with sentences that are not in training.

    Synthesised in some 15 seconds if it is not there.
    """
    if not (directory / f"{synthetic.set_name(name, language)}.json").exists():
        _told(f"synthesising held-out speech into {directory}")
        synthetic.make(directory, held_out_only=True, languages=(language,))
    return Corpus(directory, name, languages=(language,))


def checkpoint(size: str, directory: Path = _CHECKPOINTS) -> Path:
    """Return a directory of random weights in that geometry (see `benchmarks.checkpoints` and
    `benchmarks.whispers`), or of the demo checkpoint with more arithmetic (`benchmarks.heavier`).

    Written in some 10 seconds (`60m`) if it is not there. Raises KeyError for an unknown size.
    """
    output = directory / size
    if not (output / "model.safetensors").exists():
        _told(f"writing weights into {output}")
        if size in heavier.SIZES:
            heavier.write_heavier(heavier.SIZES[size], output)
        elif size in whispers.SIZES:
            whispers.write_whisper(whispers.SIZES[size], output)
        else:
            write_checkpoint(SIZES[size], output)
    return output


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
