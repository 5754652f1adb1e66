"""Commands in the documents produce the output printed below them (tests/document_commands.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from auricle_testing import recordings
from auricle_testing.server import ROOT, Server
from tests.document_commands import Example, examples, shell

pytest.importorskip("riva.client", reason="run make setup-dev")
pytest.importorskip("tritonclient.grpc", reason="run make setup-dev")
pytestmark = pytest.mark.end_to_end
# The documents' addresses of the server and its gRPC port, and their name of a user's recording.
_SERVER, _GRPC, _OWN = "127.0.0.1:8080", "127.0.0.1:50051", "hello.wav"
_NEEDED = ("models", "configs", "graphs", "examples")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the parts that commands read, and a recording; they write elsewhere."""
    made = tmp_path_factory.mktemp("checkout")
    for name in _NEEDED:
        (made / name).symlink_to(ROOT / name)
    soundfile.write(made / _OWN, recordings.samples("hello"), 16_000, subtype="PCM_16")
    return made


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
