"""Word error rate of the demo checkpoint, by voices and length.

    python -m models.training.evaluate --model models/demo --write

`--write` puts the figures into the model card. For a checkpoint of several languages, each
is measured separately, with and without the language in the prompt, and so is language detection.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import jiwer
import numpy as np
import torch

from models.training.corpus import SAMPLE_RATE, Corpus
from models.training.examples import ExampleMaker
from models.training.languages import codes_of, language
from models.training.reference import Reference

_LENGTHS = {"one sentence": 1, "2 sentences": 2, "4 sentences": 4, "8 sentences": 8}
_PER_LENGTH = 60
_WORDLESS = 100  # recordings of silence, noise and hum
_TOLD = "language told right:"
_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"


def utterances(corpus: Corpus, sentences: int, count: int) -> list[tuple[np.ndarray, str]]:
    """`count` recordings of `sentences` sentences by one speaker, light noise, never over 30 s."""
    dice = random.Random(sentences)
    noise = np.random.default_rng(sentences)
    made = []
    while len(made) < count:
        chosen = dice.sample(dice.choice(corpus.speakers), sentences)
        parts = []
        for sentence in chosen:
            parts += [corpus.audio(sentence), np.zeros(int(0.3 * SAMPLE_RATE), np.float32)]
        audio = np.concatenate(parts)
        if len(audio) > 30 * SAMPLE_RATE:
            continue
        audio = audio + (10 ** (-50 / 20) * noise.standard_normal(len(audio))).astype(np.float32)
        made.append((audio, " ".join(" ".join(s.words) for s in chosen)))
    return made


def measure(
    model: Path, corpus: Path, per_length: int, wordless: int = _WORDLESS
) -> dict[str, float]:
    """Return error rates as fractions, and the words written per recording without speech."""
    reference = Reference(model)
    codes = codes_of(reference.languages)
    figures: dict[str, float] = {}
    for code in codes:
        for voices in ("seen", "unseen"):
            spoken = Corpus(corpus, voices, languages=(code,))
            if len(codes) == 1:
                figures |= _by_length(reference, spoken, f"{voices} voices", per_length)
            else:
                name = language(code).name
                row = f"{name}, {voices} voices"
                figures |= _by_length(reference, spoken, row, per_length, name)
    maker = ExampleMaker(Corpus(corpus, "seen", languages=codes), seed=9)
    dice = random.Random(9)
    words = [
        len(
            reference.text(
                reference.tokens(maker.without_words(dice.uniform(1, 12)).samples)
            ).split()
        )
        for _ in range(wordless)
    ]
    figures["words on silence, noise and hum"] = sum(words) / wordless
    return figures


def _by_length(
    reference: Reference, spoken: Corpus, row: str, per_length: int, name: str | None = None
) -> dict[str, float]:
    """Return word error rates.

    With the language's `name`, also the rates with the language in the prompt, and the share of
    recordings with the correct detected language.
    """
    figures: dict[str, float] = {}
    said: list[str] = []
    heard: list[str] = []
    told: list[str] = []
    forced: list[str] = []
    prefix = reference.forced(name) if name else ()
    for label, sentences in _LENGTHS.items():
        rows = utterances(spoken, sentences, per_length)
        answers = [reference.tokens(audio) for audio, _ in rows]
        texts = [reference.text(answer) for answer in answers]
        figures[f"{row}, {label}"] = jiwer.wer([t for _, t in rows], texts)
        said += [t for _, t in rows]
        heard += texts
        if name:
            told += [reference.language(answer) for answer in answers]
            given = [prefix + reference.tokens(audio, prefix=prefix) for audio, _ in rows]
            forced += [reference.text(answer) for answer in given]
    figures[row] = jiwer.wer(said, heard)
    if name:
        figures[f"{row}, language given"] = jiwer.wer(said, forced)
        figures[f"{_TOLD} {row}"] = told.count(name) / len(told)
    return figures


def write_card(path: Path, figures: dict[str, float]) -> None:
    """Replace the measured block of the model card."""
    rows = ["| held-out sentences | word error rate |", "|---|---|"]
    told = [(n.removeprefix(_TOLD).strip(), v) for n, v in figures.items() if n.startswith(_TOLD)]
    for name, value in figures.items():
        if name.startswith(_TOLD):
            continue
        shown = f"{value:.2f} a recording" if name.startswith("words") else f"{value:.1%}"
        rows.append(f"| {name} | {shown} |")
    if told:
        rows += ["", "| recordings | language told right |", "|---|---|"]
        rows += [f"| {name} | {value:.1%} |" for name, value in told]
    text = path.read_text()
    head, _, rest = text.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    path.write_text(f"{head}{_BEGIN}\n" + "\n".join(rows) + f"\n{_END}{tail}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--per-length", type=int, default=_PER_LENGTH)
    parser.add_argument("--wordless", type=int, default=_WORDLESS, metavar="RECORDINGS")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    measured = measure(arguments.model, arguments.corpus, arguments.per_length, arguments.wordless)
    print(json.dumps(measured, indent=2))
    if arguments.write:
        write_card(arguments.model / "README.md", measured)
