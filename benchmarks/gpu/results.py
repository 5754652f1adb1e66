"""The result file: the outcome of each part, kept from run to run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.gpu.found import Found

_KIND = ("device", "quick")


class Results:
    """Finished parts stay in the file, each with date, machine and commit."""

    def __init__(self, path: Path, *, device: str, quick: bool) -> None:
        """Open the file, or begin it.

        Raises ValueError if it has another format, device or size: figures of one file can be
        compared.
        """
        self.path = path
        self._kind = {"device": device, "quick": quick}
        self._parts: dict[str, dict[str, Any]] = {}
        if path.exists():
            self._parts = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            known = json.loads(self.path.read_text())
            parts: dict[str, dict[str, Any]] = known["parts"]
            kind = {name: known[name] for name in _KIND}
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{self.path} was not written by this benchmark; name a new file"
            ) from None
        if kind != self._kind:
            raise ValueError(
                f"{self.path} has figures of {_options(kind)}, not of {_options(self._kind)}; name "
                "another file"
            )
        return parts

    def done(self, part: str) -> bool:
        """Whether the part has its figures."""
        return "figures" in self._parts.get(part, {})

    def figures_of(self, part: str) -> dict[str, float]:
        """Return the figures of a part; empty if it is not done."""
        return dict(self._parts.get(part, {}).get("figures", {}))

    def keep(self, part: str, found: Found, seconds: float, environment: dict[str, str]) -> None:
        """Store the outcome of a part; it is on disk when this returns."""
        self._store(part, asdict(found) | {"seconds": seconds, "environment": environment})

    def failed(self, part: str, why: str, environment: dict[str, str]) -> None:
        """Store the reason why a part has no figures; earlier ones are dropped."""
        self._store(part, {"failed": why, "environment": environment})

    def _store(self, part: str, row: dict[str, Any]) -> None:
        self._parts[part] = row
        harness.write(self.path, self._plain())

    def _plain(self) -> dict[str, Any]:
        """Return all figures together, and all parts with their details."""
        return self._kind | {
            "figures": self._together("figures"),
            "not_measured": self._together("not_measured"),
            "failed": {name: row["failed"] for name, row in self._parts.items() if "failed" in row},
            "parts": self._parts,
        }

    def _together(self, what: str) -> dict[str, Any]:
        return {k: v for row in self._parts.values() for k, v in row.get(what, {}).items()}

    def lines(self) -> list[str]:
        """Return a line per figure; unmeasured figures, then figures of failed parts, come last."""
        plain = self._plain()
        return [
            *(f"{name:36} {value:.6g}" for name, value in plain["figures"].items()),
            *(f"{name:36} not measured: {why}" for name, why in plain["not_measured"].items()),
            *(f"{name:36} failed: {why}" for name, why in plain["failed"].items()),
        ]


def _options(kind: dict[str, Any]) -> str:
    return f"--device {kind['device']}{' --quick' if kind['quick'] else ''}"
