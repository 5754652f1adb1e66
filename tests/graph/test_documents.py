"""Commands in the documents do what stands below them.

A block of `console` after the comment `<!-- runs -->` is run towards a graph: each line that begins
with `$ ` is a command, which must succeed, and what follows is its output. There `...` stands for
any text, and other spaces and line ends make no difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import soundfile

from tests import recordings
from tests.server import READY_SECONDS, ROOT, Server

pytest.importorskip("riva.client", reason="run make setup-dev")
pytest.importorskip("tritonclient.grpc", reason="run make setup-dev")
pytestmark = pytest.mark.end_to_end
_BLOCK = re.compile(r"<!-- runs -->\n```console\n(.*?)```", re.DOTALL)
# What the documents call the server, its gRPC port, and a recording of the reader's.
_SERVER, _GRPC, _OWN = "127.0.0.1:8080", "127.0.0.1:50051", "hello.wav"
_NEEDED = ("models", "configs", "graphs", "examples")


@dataclass(frozen=True)
class Example:
    """A command of a document, and the output that it shows."""

    page: str
    command: str
    output: str

    def matches(self, said: str) -> bool:
        """Whether something is the output."""
        parts = [re.escape(" ".join(part.split())) for part in self.output.split("...")]
        wanted = r"\s*.*".join(part.replace(r"\ ", r"\s+") for part in parts)
        return re.fullmatch(rf"\s*{wanted}\s*", said, re.DOTALL) is not None


def examples() -> list[Example]:
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in _BLOCK.findall(page.read_text()):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(Example(page.name, command, output))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader's checkout has, and a recording; what commands write is elsewhere."""
    made = tmp_path_factory.mktemp("checkout")
    for name in _NEEDED:
        (made / name).symlink_to(ROOT / name)
    soundfile.write(made / _OWN, recordings.samples("hello"), 16_000, subtype="PCM_16")
    return made


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as it is typed where the environment is activated."""
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


@pytest.mark.parametrize("example", examples(), ids=lambda e: f"{e.page}: {e.command[:40]}")
def test_a_command_of_a_document_does_what_it_says(
    example: Example, server: Server, grpc_address: str, folder: Path
) -> None:
    here = server.url.removeprefix("http://")
    command = example.command.replace(_SERVER, here).replace(_GRPC, grpc_address)
    done = shell(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.replace(here, _SERVER)
    assert example.matches(shown), f"{shown!r} is not {example.output!r}"


def test_the_documents_have_examples_of_each_kind() -> None:
    pages = {example.page for example in examples()}
    assert pages >= {"index.md", "moving.md", "deploying.md"}
    scripts = {path.name for path in (ROOT / "examples/moving").glob("*_*.py")}
    run = "".join(example.command for example in examples())
    assert not {name for name in scripts - {"__init__.py"} if name not in run}
