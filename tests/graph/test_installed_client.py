"""The wheel with the extra `client`, installed from the package index without any of a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auricle_testing import recordings
from auricle_testing.server import ROOT, Server

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
SECONDS = 600.0
OF_A_SERVER = {"ai-dynamo", "nixl", "torch", "transformers", "vllm", "fastapi", "pydantic"}
PROGRAM = """
import sys
from auricle.client import Done, SyncClient

path, url = sys.argv[1:]
client = SyncClient(url)
print(client.transcribe(path).text)
for event in client.stream(path):
    if isinstance(event, Done):
        print(event.text)
"""


class Installed:
    """The commands of an environment of its own, run in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv/bin"
        self.run(sys.executable, "-m", "venv", str(folder / "venv"))

    def run(self, *command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command without the checkout's modules, and return its output."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            command,
            cwd=work,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def auricle(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the installed command."""
        return self.run(str(self.bin / "auricle"), *arguments, status=status)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("client")
    # setuptools leaves files where it builds.
    source = folder / "source"
    shutil.copytree(ROOT / "components/auricle", source / "components/auricle")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    environment = Installed(folder)
    pip = (str(environment.bin / "pip"), "--disable-pip-version-check")
    environment.run(*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "dist"), str(source))
    [wheel] = (folder / "dist").glob("auricle-*.whl")
    environment.run(*pip, "install", f"{wheel}[client]")
    return environment


def test_it_installs_nothing_of_a_server(installed: Installed) -> None:
    listed = installed.run(str(installed.bin / "pip"), "list", "--format=freeze").stdout
    names = {line.partition("==")[0].lower() for line in listed.splitlines()}
    assert "auricle" in names
    assert not names & OF_A_SERVER


def test_the_command_transcribes_at_a_server(installed: Installed, server: Server) -> None:
    path = str(recordings.path("hello"))
    live = installed.auricle("transcribe", path, "--url", server.url)
    assert live.stdout.split() == recordings.words("hello").split()
    many = installed.auricle(
        *("transcribe", path, str(recordings.path("station")), "--url", server.url),
        *("--format", "txt,srt", "--out", "results"),
    )
    assert "2 transcribed, 0 failed" in many.stderr
    assert (installed.folder / "work/results/station.srt").read_text().startswith("1\n00:00:0")


def test_the_library_transcribes_at_a_server(installed: Installed, server: Server) -> None:
    program = installed.folder / "program.py"
    program.write_text(PROGRAM)
    python, path = str(installed.bin / "python"), str(recordings.path("hello"))
    told = installed.run(python, str(program), path, server.url).stdout.splitlines()
    assert told == [recordings.words("hello")] * 2


@pytest.mark.parametrize("command", [("serve", "graphs.e_pd:Frontend"), ("demo",)])
def test_a_command_that_needs_a_server_says_so(
    installed: Installed, command: tuple[str, ...]
) -> None:
    told = installed.auricle(*command, status=1).stderr
    assert told.startswith("auricle: only the client is installed here; ")
    assert len(told.splitlines()) == 1
