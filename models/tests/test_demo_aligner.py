"""The bundled aligner: word times of sentences outside its training set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.training.align.evaluate import clips, differences
from models.training.align.reference import AlignerReference
from models.training.corpus import Corpus, synthesise
from models.training.sentences import SentenceMaker

pytestmark = pytest.mark.unit
MODEL = Path(__file__).parents[2] / "models" / "demo-aligner"


@pytest.fixture(scope="module")
def aligner() -> AlignerReference:
    return AlignerReference(MODEL)


@pytest.mark.parametrize(
    ("voice", "median", "high"), [("en-us+f2", 60, 200), ("en-us+m3", 80, 300)]
)
def test_words_are_where_they_were_said(
    aligner: AlignerReference, tmp_path: Path, voice: str, median: float, high: float
) -> None:
    """Looser limits than the card: a few clips of one training voice and one unseen voice."""
    maker = SentenceMaker(seed=11)
    synthesise(tmp_path, "few", (voice,), [maker.sentence() for _ in range(16)], seed=1)
    errors = []
    for clip in clips(Corpus(tmp_path, "few"), 12.0, 4):
        told = aligner.times(clip.samples, [spoken.word for spoken in clip.said])
        errors += differences(told, clip.said)
    found = np.percentile(errors, (50, 95))
    assert found[0] <= median
    assert found[1] <= high


def test_times_lie_in_the_clip_and_never_go_back(aligner: AlignerReference) -> None:
    """This holds even for words that the clip does not contain."""
    samples = np.random.default_rng(1).normal(0, 0.05, 16_000 * 5).astype(np.float32)
    times = aligner.times(samples, ["cat", "dog", "unheard-of", "market"])
    flat = [time for pair in times for time in pair]
    assert len(times) == 4
    assert flat == sorted(flat)


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir() if path.is_file()) <= 8_000_000
