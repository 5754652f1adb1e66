"""Word error rate of a checkpoint by speakers: espeak-ng, and each source's voices.

    python -m models.training.heard --model models/demo [--corpus build/demo-corpus] [--count 60]
    python -m models.training.heard --work build/demo

`--work` is the folder of a training, finished or not. No sentence occurs in a training set, and
neither do the `unseen` voices or the speaker of `people, unseen`. `people, seen` has the recorded
words of the training in random rows: it measures whether these were learned, not how well others
are recognised. `bundled recordings` is the share of their sentences with errors, each with several
starts (`models.training.bundled`): the tests of the graph use these recordings. The figures may
guide the training, because only flite's voices are also in the data of `benchmarks.people`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jiwer
import torch

from models.training.bundled import from_beginnings
from models.training.corpus import Corpus, set_name
from models.training.evaluate import utterances
from models.training.export import export
from models.training.languages import DEFAULT, codes_of
from models.training.reference import Reference
from models.training.shards import opened
from models.training.sources import speaking

_COUNT = 60
_BEGINNINGS = 13


def figures(model: Path, corpus: Path, count: int) -> dict[str, float]:
    """Return the error rates of all sets, as fractions; each over `count` sentences."""
    reference = Reference(model)
    codes = codes_of(reference.languages)
    rates = {name: _wer(reference, spoken, count) for name, spoken in sets(corpus, codes)}
    if DEFAULT in codes:
        rates["bundled recordings"] = _otherwise(reference)
    return rates


def sets(corpus: Path, codes: Sequence[str]) -> Iterator[tuple[str, Corpus]]:
    """Yield the names and test sets for a checkpoint of some languages.

    Raises FileNotFoundError if espeak-ng's sets are missing.
    """
    for code in codes:
        for role in ("seen", "unseen"):
            name = f"espeak-ng, set {set_name('train', code)}, {role}"
            yield name, Corpus(corpus, role, languages=(code,))
    for name in speaking(codes):
        for role in ("seen", "unseen"):
            for spoken in opened(corpus, name, role):
                yield f"{name}, {role}", spoken


def _wer(reference: Reference, spoken: Corpus, count: int) -> float:
    said = utterances(spoken, 1, count)
    heard = [reference.text(reference.tokens(samples)) for samples, _ in said]
    return float(jiwer.wer([words for _, words in said], heard))


def _otherwise(reference: Reference) -> float:
    said = list(from_beginnings(_BEGINNINGS))
    heard = [reference.text(reference.tokens(samples)) for samples, _ in said]
    return sum(a != words for a, (_, words) in zip(heard, said, strict=True)) / len(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path)
    which.add_argument("--work", type=Path)
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--count", type=int, default=_COUNT, help="sentences of each")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.work:
            export(arguments.work, Path(folder))
        model = arguments.model or Path(folder)
        print(json.dumps(figures(model, arguments.corpus, arguments.count), indent=2))


if __name__ == "__main__":
    main()
