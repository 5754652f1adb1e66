"""The bundled recordings, taken apart for a checkpoint to hear from several beginnings."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from models.training.bundled import from_beginnings, sentences
from tests import recordings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", recordings.NAMES)
def test_sentences_are_cut_where_nobody_speaks(name: str) -> None:
    parts = [audio for audio, _ in sentences(recordings.path(name))]
    assert np.concatenate(parts).tolist() == recordings.samples(name).tolist()
    for audio in parts:
        around = np.concatenate([audio[:1600], audio[-1600:]])
        assert np.abs(around).max() < 0.05
        assert np.abs(audio).max() > 0.2


def test_a_segment_begins_thirteen_ms_earlier_each_time_and_says_the_same() -> None:
    (first, said), *others = list(from_beginnings(3))[:3]
    for number, (audio, words) in enumerate(others, 1):
        assert words == said
        assert not audio[: 208 * number].any()
        assert audio[208 * number :].tolist() == first.tolist()


def test_a_text_of_other_sentences_is_refused(tmp_path: Path) -> None:
    shutil.copy(recordings.path("hello"), tmp_path)
    (tmp_path / "hello.txt").write_text("hello peter\nwhere is my blue hat\n")
    with pytest.raises(ValueError, match=r"hello.flac has 1 sentences, its text 2"):
        sentences(tmp_path / "hello.flac")
