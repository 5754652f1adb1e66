"""The rows of a run on disk: a line of JSON each, written as soon as it is known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.figures import Row


@dataclass(frozen=True)
class Results:
    """The file of one run."""

    path: Path

    def begin(self, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        """Start the file anew."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        self.add({"type": "run", "arguments": arguments, "environment": environment})

    def add(self, row: Row) -> None:
        """Append a row; it is on disk when this returns."""
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self) -> list[Row]:
        """Return all rows. A last line that was cut off by an interruption is left out."""
        found = []
        for line in self.path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def done(self, arguments: dict[str, Any]) -> set[int]:
        """Return the numbers of the faults that are done.

        Raises ValueError unless the file is of a run with the same arguments.
        """
        rows = self.rows()
        begun = next((row["arguments"] for row in rows if row["type"] == "run"), None)
        if begun != arguments:
            raise ValueError(f"{self.path} is of a run with {begun}, not {arguments}")
        return {row["number"] for row in rows if row["type"] == "fault"}
