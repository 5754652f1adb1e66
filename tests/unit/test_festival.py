"""festival as a process of its own, in whose place a script stands: one that does not answer, and
one whose process ends."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from models.training.sources import festival
from models.training.sources.festival import Festival

pytestmark = pytest.mark.unit
READS = "#!/bin/sh\nexec cat > /dev/null\n"
ENDS = "#!/bin/sh\nread line\nexit 3\n"


def unpacked(folder: Path, script: str) -> Path:
    """Return a folder with this script as festival."""
    program = folder / "usr/bin/festival"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "told"),
    [(READS, "festival has not answered within 0.2 s"), (ENDS, "festival has ended with 3")],
)
def test_what_does_not_answer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    root = unpacked(tmp_path, script)
    monkeypatch.setattr(festival, "fetch", lambda: root)
    monkeypatch.setattr(festival, "_ANSWER_SECONDS", 0.2 if script == READS else 60.0)
    engine = Festival()
    with pytest.raises(RuntimeError, match=told):
        engine._answer()
    engine.close()
    assert not Path(engine._folder.name).exists()


_kept: list[Festival] = []  # as `models.training.sources.engine` keeps it


def _begun(root: Path) -> tuple[str, int]:
    festival.fetch = lambda: root
    _kept.append(Festival())
    return _kept[0]._folder.name, _kept[0]._process.pid


def test_a_process_of_a_pool_leaves_nothing_behind(tmp_path: Path) -> None:
    root = unpacked(tmp_path, READS)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        folder, process = pool.submit(_begun, root).result(timeout=60)
        assert Path(folder).exists()
    assert not Path(folder).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
