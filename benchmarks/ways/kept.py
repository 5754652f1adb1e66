"""What was heard, kept in a file as it comes: a run that was interrupted can go on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.streaming.audio import Samples
from benchmarks.ways.ways import Heard


@dataclass(frozen=True)
class _Row:
    way: str
    recording: str
    heard: Heard


class Kept:
    """What ways heard of recordings; see `name_of`."""

    def __init__(self, file: Path, *, resume: bool = False) -> None:
        """Begin the file anew, or with `resume` go on with what it has."""
        self._file = file
        self._heard: dict[tuple[str, str], Heard] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            file.unlink(missing_ok=True)
        if file.exists():
            for line in file.read_bytes().splitlines():
                row = msgspec.json.decode(line, type=_Row)
                self._heard[row.way, row.recording] = row.heard

    def add(self, way: str, recording: str, heard: Heard) -> None:
        """Keep what a way heard."""
        self._heard[way, recording] = heard
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(_Row(way, recording, heard)) + b"\n")

    def __contains__(self, way_and_recording: tuple[str, str]) -> bool:
        return way_and_recording in self._heard

    def __getitem__(self, way_and_recording: tuple[str, str]) -> Heard:
        return self._heard[way_and_recording]


def name_of(samples: Samples) -> str:
    """Return a name for a recording: the same samples have the same one."""
    return hashlib.sha256(np.ascontiguousarray(samples)).hexdigest()[:16]
