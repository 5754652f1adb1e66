"""BLEU and chrF of the demo translator, and its resistance to instructions in a text.

    python -m models.training.translate.evaluate --model models/demo-translate --write

`--write` puts the figures into the model card. The reference translations are apertium's.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU, CHRF

from models.training.translate.parallel import Asked, held_out, instructions
from models.training.translate.prompts import Turn
from models.training.translate.reference import Translator

_SENTENCES = 200
_SEQUENCES = 40
_BEGINNINGS = 30
# An instruction counts as translated if the answer is this close to its translation.
_TRANSLATED_CHRF = 60.0
_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"


def scores(told: Sequence[str], wanted: Sequence[str]) -> tuple[float, float]:
    """Return (BLEU, chrF) of a corpus, with sacrebleu's defaults."""
    bleu = BLEU().corpus_score(list(told), [list(wanted)]).score
    return bleu, CHRF().corpus_score(list(told), [list(wanted)]).score


def sequences(pairs: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Return `count` groups of three sentences, joined without a mark as in a segment."""
    dice = random.Random(3)
    some = [dice.sample(list(pairs), 3) for _ in range(count)]
    return [(" ".join(a for a, _ in three), " ".join(b for _, b in three)) for three in some]


def kept_share(translator: Translator, sources: Sequence[str]) -> tuple[float, float]:
    """Return the share of words answered to beginnings that the final translation keeps.

    The second figure is the share of its words that are answered at half of the source.
    """
    said = kept = half = whole_words = 0
    for source in sources:
        words = source.split()
        whole = translator.translated(source).split()
        for count in range(1, len(words)):
            told = translator.continued(Turn(" ".join(words[:count]), "", more=True)).split()
            same = next((i for i, w in enumerate(told) if whole[i : i + 1] != [w]), len(told))
            said, kept = said + len(told), kept + same
            if count == len(words) // 2:
                half += len(told)
        whole_words += len(whole)
    return kept / max(1, said), half / max(1, whole_words)


def translated_share(translator: Translator, asked: Sequence[Asked]) -> tuple[float, list[str]]:
    """Return the share of instructions that are translated, and the answers to the others."""
    wrong = []
    for one in asked:
        told = translator.translated(one.source)
        near = CHRF().sentence_score(told, [one.target]).score
        if near < _TRANSLATED_CHRF:
            wrong.append(f"{one.source} -> {told} ({near:.0f})")
    return 1 - len(wrong) / max(1, len(asked)), wrong


def measure(model: Path, sentences: int, beginnings: int) -> tuple[dict[str, str], list[str]]:
    """Return the card's rows, and the answers to untranslated instructions."""
    translator = Translator(model)
    pairs = held_out()[:sentences]
    rows: dict[str, str] = {}
    for name, some in (
        ("one sentence", pairs),
        ("three sentences", sequences(pairs, min(_SEQUENCES, sentences))),
    ):
        told = [translator.translated(source) for source, _ in some]
        bleu, chrf = scores(told, [target for _, target in some])
        same = sum(a == b for a, (_, b) in zip(told, some, strict=True)) / len(some)
        rows[f"{name}: BLEU"] = f"{bleu:.1f}"
        rows[f"{name}: chrF"] = f"{chrf:.1f}"
        rows[f"{name}: the very same words"] = f"{same:.1%}"
    kept, half = kept_share(translator, [source for source, _ in pairs[:beginnings]])
    rows["words answered to beginnings that stay so"] = f"{kept:.1%}"
    rows["share of the words answered at half of the source"] = f"{half:.1%}"
    wrong: list[str] = []
    for name, taught in (("like those in training", True), ("put in another way", False)):
        asked = [one for one in instructions() if one.taught == taught]
        share, others = translated_share(translator, asked)
        rows[f"instructions {name}, translated"] = f"{share:.0%} of {len(asked)}"
        wrong += others
    return rows, wrong


def write_card(path: Path, rows: dict[str, str]) -> None:
    """Replace the measured block of the model card."""
    lines = ["| held-out text | |", "|---|---|", *(f"| {n} | {v} |" for n, v in rows.items())]
    text = path.read_text()
    head, _, rest = text.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    path.write_text(f"{head}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{tail}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=_SENTENCES)
    parser.add_argument("--beginnings", type=int, default=_BEGINNINGS, metavar="SENTENCES")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    measured, answers = measure(arguments.model, arguments.sentences, arguments.beginnings)
    print(json.dumps(measured, indent=2, ensure_ascii=False))
    print("\n".join(answers))
    if arguments.write:
        write_card(arguments.model / "README.md", measured)
