"""Tokens that a checkpoint must never generate are read from its own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auricle.checkpoints.architectures import ARCHITECTURES
from auricle.checkpoints.architectures.whisper import WHISPER, WHISPER_ENGLISH
from auricle.checkpoints.prompt import suppressed_tokens
from auricle.core.errors import CheckpointError

pytestmark = pytest.mark.unit


def written(path: Path, content: object) -> Path:
    (path / "generation_config.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("architecture", [WHISPER, WHISPER_ENGLISH], ids=lambda one: one.name)
def test_they_are_the_listed_ones_and_all_timestamps(tmp_path: Path, architecture: object) -> None:
    config = {"suppress_tokens": [9, 3, 14], "no_timestamps_token_id": 12}
    found = suppressed_tokens(written(tmp_path, config), architecture, 16)  # type: ignore[arg-type]
    assert found == (3, 9, 12, 13, 14, 15)


@pytest.mark.parametrize("listed", [{}, {"suppress_tokens": None}, {"suppress_tokens": []}])
def test_without_a_list_they_are_the_timestamps(tmp_path: Path, listed: dict[str, object]) -> None:
    path = written(tmp_path, listed | {"no_timestamps_token_id": 12})
    assert suppressed_tokens(path, WHISPER, 14) == (12, 13)


def test_other_models_have_none(tmp_path: Path) -> None:
    for one in ARCHITECTURES:
        if one.audio == "prompt":
            assert suppressed_tokens(tmp_path, one, 16) == ()


@pytest.mark.parametrize(
    "content", [{}, [], {"no_timestamps_token_id": None}, {"no_timestamps_token_id": "x"}]
)
def test_a_file_that_does_not_name_them_is_an_error(tmp_path: Path, content: object) -> None:
    with pytest.raises(CheckpointError, match=r"generation_config\.json is missing or unreadable"):
        suppressed_tokens(written(tmp_path, content), WHISPER, 16)


def test_a_file_that_is_missing_or_torn_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="take the one that was published"):
        suppressed_tokens(tmp_path, WHISPER, 16)
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(CheckpointError, match="take the one that was published"):
        suppressed_tokens(tmp_path, WHISPER, 16)
