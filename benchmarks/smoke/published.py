"""Finds the commands that the documents publish. No I/O except reading them."""

from __future__ import annotations

import re
from pathlib import Path

# Users may copy commands from these documents. CHANGELOG.md has commands of earlier versions.
DOCUMENTS = (
    "benchmarks/RESULTS.md", "benchmarks/README.md", "README.md", "docs/limits.md",
    "docs/planner.md", "docs/transcriptions.md",
)  # fmt: skip
_MEASURES = re.compile(r"python -m benchmarks[\w.]*( |$)")
# In RESULTS.md every command counts, whatever runs it.
_RUNS = re.compile(r"(python -m|pytest|make) ")


def published(root: Path) -> set[str]:
    """Return the commands, each on one line and without the path of the interpreter."""
    found: set[str] = set()
    for name in DOCUMENTS:
        wanted = _RUNS if name.endswith("RESULTS.md") else _MEASURES
        found |= {c for c in commands((root / name).read_text()) if wanted.match(c)}
    return found


def commands(document: str) -> set[str]:
    """Return all commands in code spans and code blocks of a Markdown document."""
    found: set[str] = set()
    for number, part in enumerate(document.split("```")):
        fenced = number % 2 == 1
        codes = part.splitlines() if fenced else re.findall(r"`([^`]+)`", part)
        for code in codes:
            for command in code.partition("#")[0].split("&&"):
                found.add(" ".join(command.split()).removeprefix(".venv/bin/"))
    return found - {""}
