"""Commands of the documents, and the output that they show.

A block of `console` after `<!-- runs -->` is run towards a graph with the bundled model,
after `<!-- runs with NAME -->` with a model that was pulled: each line that begins with `$ ` is a
command, which must succeed, and what follows is its output. There `...` stands for any text, and
other spaces and line ends make no difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from auricle_testing.server import READY_SECONDS, ROOT

_BLOCK = re.compile(r"<!-- runs(?: with (\S+))? -->\n```console\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A command of a document, and its documented output."""

    page: str
    command: str
    output: str

    def matches(self, said: str) -> bool:
        """Whether a text matches the output."""
        parts = [re.escape(" ".join(part.split())) for part in self.output.split("...")]
        wanted = r"\s*.*".join(part.replace(r"\ ", r"\s+") for part in parts)
        return re.fullmatch(rf"\s*{wanted}\s*", said, re.DOTALL) is not None


def examples(model: str = "") -> list[Example]:
    """All commands to run with this model; without a name, with the bundled one."""
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for name, block in _BLOCK.findall(page.read_text()):
            if name != model:
                continue
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(Example(page.name, command, output))
    return found


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` as a user types it in the activated environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )
