"""The folder of pulled models, while something is downloaded into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auricle.checkpoints.download.store import bytes_below

pytestmark = pytest.mark.unit


def test_a_folder_that_vanishes_while_bytes_are_counted_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").write_bytes(b"12345")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    (unpacked / "part").write_bytes(b"123")
    scandir = os.scandir

    def vanished(path: Any) -> Iterator[Any]:
        if Path(path) == unpacked and unpacked.exists():  # as pip removes it, once it is listed
            (unpacked / "part").unlink()
            unpacked.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanished)
    assert bytes_below(tmp_path) == 5
