"""Simulated scores, kept in files, so that an interrupted benchmark resumes.

A file belongs to the sources of its scores: once one of them changes, they are simulated again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.planner.cluster import Score

_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_SERVICE = (_HERE / "traces.py", _HERE / "bursts.py", _HERE / "cluster.py")
RIVALS = (*_SERVICE, _HERE / "rivals.py")
_PACKAGE = _ROOT / "components/auricle"
OURS = (
    *_SERVICE,
    _HERE / "ours.py",
    _HERE / "figures.py",
    *sorted((_PACKAGE / "config").glob("*.py")),
    *sorted((_PACKAGE / "planner").glob("*.py")),
)


def kept(
    folder: Path | None,
    name: str,
    sources: Iterable[Path],
    play: Callable[[], Sequence[Score]],
) -> tuple[Score, ...]:
    """Return the scores kept under this name; simulate and keep them if there are none yet.

    Without a folder nothing is kept.
    """
    if folder is None:
        return tuple(play())
    file = folder / f"{name}-{_digest(sources)}.json"
    if file.exists():
        return tuple(Score(**score) for score in json.loads(file.read_text()))
    scores = tuple(play())
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps([asdict(score) for score in scores]))
    part.rename(file)
    return scores


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
