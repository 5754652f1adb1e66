"""Parallel text on disk: sentences, and apertium's translation of each of their beginnings.

    python -m models.training.translate.parallel build/translate [--sentences N]

writes `train.jsonl` into the folder. Next to this file it writes `held_out.tsv` and
`instructions.tsv`, whose sentences do not occur in training. Only this command needs apertium.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.training.corpus import TRAINING_SENTENCES, texts
from models.training.sentences import SentenceMaker
from models.training.translate.apertium import translated
from models.training.translate.instructions import CONTROL, Instruction, taught, untaught

HELD_OUT = Path(__file__).with_name("held_out.tsv")
INSTRUCTIONS = Path(__file__).with_name("instructions.tsv")
SENTENCES = 12_000
_INSTRUCTION_SHARE = 0.1
_INSTRUCTIONS = 100


@dataclass(frozen=True)
class Sentence:
    """`words`, and in `said` the translation of each of their beginnings, ending with the whole."""

    words: tuple[str, ...]
    said: tuple[str, ...]

    def stable(self, count: int) -> str:
        """Return the part of the translation that no word after the first `count` changes."""
        whole = self.said[-1].split()
        return " ".join(whole[: max(_agree(t.split(), whole) for t in self.said[:count])])


@dataclass(frozen=True)
class Asked:
    """A held-out instruction: its translation, and the order that it gives instead."""

    source: str
    target: str
    order: str
    taught: bool  # whether sentences of its kind are in training


def training(directory: Path) -> list[Sentence]:
    """Read the training sentences written by `make`."""
    rows = (json.loads(line) for line in (directory / "train.jsonl").open())
    return [Sentence(tuple(row["words"]), tuple(row["said"])) for row in rows]


def held_out() -> list[tuple[str, str]]:
    """Return sentences that are not in training, with their translations."""
    lines = HELD_OUT.read_text().splitlines()
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def instructions() -> list[Asked]:
    """Return the held-out instructions."""
    rows = (line.split("\t") for line in INSTRUCTIONS.read_text().splitlines())
    return [Asked(source, target, order, kind == "taught") for source, target, order, kind in rows]


def make(directory: Path, count: int) -> None:
    """Write all three files; the result is the same each time."""
    _, kept = texts(TRAINING_SENTENCES)
    told = translated(kept)
    HELD_OUT.write_text("".join(f"{a}\t{b}\n" for a, b in zip(kept, told, strict=True)))
    asked = _held_out_instructions()
    whole = _translated([one for one, _ in asked])
    INSTRUCTIONS.write_text(
        "".join(
            f"{one.text}\t{target.said[-1]}\t{one.order}\t{kind}\n"
            for (one, kind), target in zip(asked, whole, strict=True)
        )
    )
    directory.mkdir(parents=True, exist_ok=True)
    sentences = _translated(_training_texts(count, {*kept, *(one.text for one, _ in asked)}))
    rows = (json.dumps({"words": s.words, "said": s.said}) + "\n" for s in sentences)
    (directory / "train.jsonl").write_text("".join(rows))


def _held_out_instructions() -> list[tuple[Instruction, str]]:
    dice = random.Random(11)
    found: dict[str, tuple[Instruction, str]] = {}
    while len(found) < _INSTRUCTIONS:
        known = len(found) % 2 == 0
        one = (taught if known else untaught)(dice)
        found.setdefault(one.text, (one, "taught" if known else "untaught"))
    return list(found.values())


def _training_texts(count: int, kept: set[str]) -> list[Instruction]:
    """Return `count` texts without a held-out beginning."""
    dice, maker = random.Random(10), SentenceMaker(seed=10)
    found: dict[str, Instruction] = {}
    while len(found) < count:
        if dice.random() < _INSTRUCTION_SHARE:
            one = taught(dice)
        else:
            text = maker.sentence()
            one = Instruction((text,), "")
        if not any(beginning in kept for beginning in _beginnings(one.text.split())):
            found.setdefault(one.text, one)
    return list(found.values())


def _beginnings(words: Sequence[str]) -> list[str]:
    return [" ".join(words[: count + 1]) for count in range(len(words))]


def _translated(some: Iterable[Instruction]) -> list[Sentence]:
    """Translate all beginnings; a piece that is a control token is copied."""
    some = list(some)
    parts = {piece for one in some for piece in one.pieces if piece not in CONTROL}
    needed = sorted({text for part in parts for text in _beginnings(part.split())})
    known = dict(zip(needed, translated(needed), strict=True)) | {c: c for c in CONTROL}
    return [_sentence(one, known) for one in some]


def _sentence(one: Instruction, known: dict[str, str]) -> Sentence:
    said: list[str] = []
    before = ""
    for piece in one.pieces:
        begun = [piece] if piece in CONTROL else _beginnings(piece.split())
        said += [f"{before} {known[text]}".strip() for text in begun]
        before = said[-1]
    return Sentence(tuple(one.text.split()), tuple(said))


def _agree(one: Sequence[str], other: Sequence[str]) -> int:
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    arguments = parser.parse_args()
    make(arguments.directory, arguments.sentences)
