"""Word boundary errors of the demo aligner, against the ground truth and an independent judge.

    python -m models.training.align.evaluate --model models/demo-aligner --write

`--write` puts the figures into the model card. espeak-ng provides the ground truth. The
judge is pocketsphinx, whose model was trained on human speech, independently of espeak-ng.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from models.training.align.decode import Times
from models.training.align.examples import Clip, ClipMaker, Spoken
from models.training.align.reference import AlignerReference
from models.training.corpus import Corpus

LENGTHS = (3, 10, 20, 30)
_VOICES = {"seen": "training voices", "unseen": "unseen voices"}
_CLIPS = 40  # of each length
_JUDGED = 15  # of each length
_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"


@dataclass(frozen=True)
class Figures:
    """Statistics of absolute errors in milliseconds over `words` words."""

    words: int
    median: float
    high: float  # 95th percentile


def differences(told: Sequence[Times], said: Sequence[Spoken]) -> list[float]:
    """Milliseconds between each boundary and the ground truth, where that is known."""
    return [
        abs(time - true) * 1000
        for pair, spoken in zip(told, said, strict=True)
        for time, true in zip(pair, spoken.span, strict=True)
        if true is not None
    ]


def between(one: Sequence[Times], other: Sequence[Times]) -> list[float]:
    """Milliseconds between the boundaries of two alignments of the same words."""
    return [
        abs(a - b) * 1000
        for pair, against in zip(one, other, strict=True)
        for a, b in zip(pair, against, strict=True)
    ]


def figures(words: int, errors: Iterable[float]) -> Figures:
    median, high = np.percentile(list(errors), (50, 95))
    return Figures(words, float(median), float(high))


def clips(corpus: Corpus, seconds: float, count: int, *, whole: bool = False) -> list[Clip]:
    """Held-out clips of up to `seconds`, half of them with noise 10 to 45 dB below speech."""
    made: list[Clip] = []
    seed = round(seconds * 1000)
    while len(made) < count:
        clip = ClipMaker(corpus, seed=seed).clip(seconds, whole=whole)
        seed += 1
        if clip.said:
            made.append(clip)
    return made


def errors_of(aligner: AlignerReference, some: Sequence[Clip], *, misheard: bool) -> Figures:
    """Errors against the ground truth, given the correct words or a recogniser's (`misheard`)."""
    words, errors = 0, []
    for clip in some:
        given = clip.words if misheard else clip.said
        told = aligner.times(clip.samples, [spoken.word for spoken in given])
        words += len(given)
        errors += differences(told, given)
    return figures(words, errors)


def judged(aligner: AlignerReference, some: Sequence[Clip]) -> dict[str, Figures]:
    """Errors of the aligner and of the ground truth against the judge.

    Clips without an alignment by the judge are skipped. The judge fails where a word was cut, so
    these clips should be whole.
    """
    from models.training.align.judge import Judge  # only here: the rest needs no pocketsphinx

    judge = Judge()
    ours: list[float] = []
    truth: list[float] = []
    words = 0
    for clip in some:
        said = [spoken.word for spoken in clip.said]
        theirs = judge.times(clip.samples, said)
        if theirs is None:
            continue
        words += len(said)
        ours += between(aligner.times(clip.samples, said), theirs)
        truth += differences(theirs, clip.said)
    return {"aligner and judge": figures(words, ours), "truth and judge": figures(words, truth)}


def measure(model: Path, corpus: Path, count: int, judged_count: int) -> dict[str, Figures]:
    """Return the card's rows by name."""
    aligner = AlignerReference(model)
    rows: dict[str, Figures] = {}
    for name, label in _VOICES.items():
        spoken = Corpus(corpus, name)
        by_length = {seconds: clips(spoken, seconds, count) for seconds in LENGTHS}
        for seconds, some in by_length.items():
            rows[f"{label}, {seconds} s"] = errors_of(aligner, some, misheard=False)
        everything = [clip for some in by_length.values() for clip in some]
        rows[label] = errors_of(aligner, everything, misheard=False)
        wrong = [c for c in everything if c.words != c.said and c.words]
        rows[f"{label}, words misheard"] = errors_of(aligner, wrong, misheard=True)
        some = [c for s in LENGTHS for c in clips(spoken, s, judged_count, whole=True)]
        rows |= {f"{label}, {what}": found for what, found in judged(aligner, some).items()}
    return rows


def write_card(path: Path, rows: dict[str, Figures]) -> None:
    """Replace the measured block of the model card."""
    lines = ["| held-out sentences | words | median, ms | 95%, ms |", "|---|---|---|---|"]
    lines += [f"| {n} | {f.words} | {f.median:.0f} | {f.high:.0f} |" for n, f in rows.items()]
    text = path.read_text()
    head, _, rest = text.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    path.write_text(f"{head}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{tail}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--clips", type=int, default=_CLIPS, help="of each length and voices")
    parser.add_argument("--judged", type=int, default=_JUDGED, help="how many of them are judged")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = measure(arguments.model, arguments.corpus, arguments.clips, arguments.judged)
    print(json.dumps({name: vars(row) for name, row in found.items()}, indent=2))
    if arguments.write:
        write_card(arguments.model / "README.md", found)
