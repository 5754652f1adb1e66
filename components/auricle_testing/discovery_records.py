"""Records of the file discovery: rewritten to route calls through a proxy, or fabricated."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# As Dynamo names the components.
NAMES = {"EncodeWorker": "encode_worker", "PdWorker": "pd_worker", "Processor": "processor"}
_SLASH = "%2F"  # in the names of the records' files
_ADDRESS = re.compile(r"^([^:/]+):(\d+)(/.*)$")


class Records:
    """The records below a discovery directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def addresses(self, component: str) -> dict[str, tuple[str, int]]:
        """The addresses at which a component listens, by instance (hexadecimal)."""
        return {
            _instance(path): (parts[1], int(parts[2]))
            for path, record in self._of(component)
            if (parts := _ADDRESS.match(record["transport"]["tcp"])) is not None
        }

    def move(self, component: str, instance: str, port: int) -> None:
        """Have callers of the instance connect to another port of this machine."""
        for path, record in self._of(component):
            if _instance(path) == instance:
                self._write(path, _at_port(record, port))

    def stale(self, component: str, port: int, seconds: float) -> int:
        """Register one more instance for `seconds`, at a port without a listener.

        A process that has died or lost its network leaves such records. This call blocks meanwhile,
        and returns the number of endpoints that had records.
        """
        instance = f"{random.getrandbits(62) | 1 << 62:x}"
        made: dict[Path, dict[str, Any]] = {}
        for path, record in self._of(component):
            endpoint = path.name.rpartition(_SLASH)[0]
            moved = _at_port(record, port)
            address = moved["transport"]["tcp"].replace(_instance(path), instance)
            made[path.with_name(f"{endpoint}{_SLASH}{instance}")] = moved | {
                "instance_id": int(instance, 16),
                "transport": {"tcp": address},
            }
        end = time.monotonic() + seconds
        try:
            for path, record in made.items():
                self._write(path, record)
            while time.monotonic() < end:  # a record is valid as long as it is renewed
                for path in made:
                    os.utime(path)
                time.sleep(0.5)
        finally:
            for path in made:
                path.unlink(missing_ok=True)
        return len(made)

    def _of(self, component: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        name = NAMES[component].replace("_", "%5F")
        for path in sorted(self._directory.glob(f"v1/instances/*{_SLASH}{name}{_SLASH}*")):
            try:
                yield path, json.loads(path.read_text())
            except (OSError, ValueError):
                continue  # it has just been removed, or is being written

    def _write(self, path: Path, record: dict[str, Any]) -> None:
        # Written in full, then renamed, so that readers never see half a record.
        whole = self._directory / f".record-{os.getpid()}"
        whole.touch(mode=0o600)
        whole.write_text(json.dumps(record, separators=(",", ":")))
        whole.replace(path)


def _instance(path: Path) -> str:
    return path.name.rpartition(_SLASH)[2]


def _at_port(record: dict[str, Any], port: int) -> dict[str, Any]:
    parts = _ADDRESS.match(record["transport"]["tcp"])
    assert parts is not None, record
    return record | {"transport": {"tcp": f"{parts[1]}:{port}{parts[3]}"}}
