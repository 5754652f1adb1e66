"""Install a lock file: `python requirements/install.py VENV LOCK [--editable PROJECT]`.

Needs only Python 3.11 or 3.12; creates VENV if it is missing. The lock files are complete, so pip
does not resolve dependencies. If a lock names torch's CPU build, the first source that has it is
used: pip's own sources, then PyTorch's index. If both fail, PyPI's build for CUDA is installed.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PYPI_TORCH = Path(__file__).with_name("torch-pypi.txt")
BEAT_S = 10.0  # between two progress lines
WHEEL = re.compile(r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?(\S+\.whl)( \(.+\))?$")


class SetupError(Exception):
    """Setup failed; the message has the reason."""


def pins(lock: str) -> list[str]:
    """Return the requirements of a lock file, in order."""
    lines = (line.partition("#")[0].strip() for line in lock.splitlines())
    return [line for line in lines if line]


def exact(pin: str) -> str:
    """Return the pin for pip. 1+cpu also satisfies `torch==1`, and pip prefers it, hence `===`."""
    return re.sub(r"^(torch\w*)==([^+]+)$", r"\1===\2", pin)


def discard_unfinished(site_packages: Path) -> list[str]:
    """Remove the metadata of packages whose installation was interrupted; return their names.

    If the metadata exists, pip assumes that the whole package is installed. RECORD lists INSTALLER
    only when every file is in place. Without the metadata pip installs the package again.
    """
    names = []
    for folder in sorted(site_packages.glob("*.dist-info")):
        record = folder / "RECORD"
        if not record.is_file() or "/INSTALLER," not in record.read_text():
            shutil.rmtree(folder)
            names.append(folder.name.removesuffix(".dist-info"))
    return names


@dataclass
class Progress:
    """Progress of the installation of `total` packages, parsed from pip's output."""

    total: int
    found: bool = False
    unreachable: bool = False
    installing: bool = False
    ready: set[str] = field(default_factory=set)
    latest: str = ""

    def see(self, line: str) -> None:
        """Parse one line of pip's output."""
        if wheel := WHEEL.match(line):
            self.found = True  # pip prints no earlier line for a file in a folder
            self.ready.add(wheel[1])
            self.latest = f", now {wheel[1]}{wheel[2] or ''}"
        elif line.startswith("Requirement already satisfied: "):
            self.found = True
            self.ready.add(line.split()[3])
        elif line.startswith("Collecting "):
            self.found = True
        elif line.startswith("Installing collected packages: "):
            self.installing = True
        elif line.startswith("WARNING: Retrying "):
            self.unreachable = True

    def text(self, installed: int) -> str:
        """Return a progress line, given the number of `installed` packages."""
        if self.installing:
            return f"installing, {min(installed, self.total)} of {self.total} in place"
        if not self.found:
            return "looking for it"
        return f"fetching, {len(self.ready)} of {self.total}{self.latest}"


@dataclass(frozen=True)
class Environment:
    """A virtual environment; `say` prints its progress."""

    folder: Path
    say: Callable[[str], None]

    def prepare(self) -> None:
        """Create the environment if it is missing or broken."""
        try:
            subprocess.run([*self._pip(), "--version"], capture_output=True, check=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            self.say(f"{self.folder}: a new environment of Python {sys.version.split()[0]}")
            make = [sys.executable, "-m", "venv", str(self.folder)]
            make += ["--clear"] * (self.folder / "pyvenv.cfg").exists()
            if subprocess.run(make, check=False).returncode:
                raise SetupError(f"`{' '.join(make)}` failed; its output is above") from None
        for site_packages in self.folder.glob("lib/python*/site-packages"):
            for name in discard_unfinished(site_packages):
                self.say(f"{name}: was half installed; once more")

    def install(
        self, what: str, wanted: list[str], *options: str, search_s: float = math.inf
    ) -> None:
        """Install exactly the `wanted` pins, with a progress line every `BEAT_S` seconds.

        Raises SetupError if pip fails, or finds none of them within `search_s` seconds.
        """
        command = [*self._pip(), "install", "--no-deps", "--progress-bar=off", *options]
        command += map(exact, wanted)
        progress, output = Progress(len(wanted)), [""]
        began, before = time.monotonic(), self._installed()
        with subprocess.Popen(command, stdout=PIPE, stderr=STDOUT, text=True) as pip:

            def read() -> None:
                for line in pip.stdout or ():
                    output.append(line)
                    progress.see(line)

            reader = threading.Thread(target=read)
            reader.start()
            try:
                while reader.is_alive():
                    reader.join(min(BEAT_S, search_s))
                    if not progress.found and time.monotonic() - began >= search_s:
                        raise SetupError("no answer")
                    if reader.is_alive():
                        self.say(f"{what}: {progress.text(self._installed() - before)}")
            except BaseException:
                pip.terminate()
                raise
        if pip.returncode:
            if math.isfinite(search_s) and not progress.found:
                raise SetupError("no answer" if progress.unreachable else "not there")
            print("".join(output[-15:]), file=sys.stderr, flush=True)
            raise SetupError(f"pip failed to install {what}; its output is above")
        self.say(f"{what}: done")

    def _pip(self) -> list[str]:
        return [f"{self.folder}/bin/python", "-um", "pip", "--disable-pip-version-check"]

    def _installed(self) -> int:
        return len(list(self.folder.glob("lib/python*/site-packages/*.dist-info/INSTALLER")))


def install_torch(environment: Environment, pin: str) -> None:
    """Install torch's CPU build, or PyPI's build of the same version if no source has it."""
    for source, search_s, options in (
        ("pip's own sources", 60.0, ()),
        (CPU_INDEX, 10.0, ("--index-url", CPU_INDEX)),
    ):
        what = f"torch's CPU build from {source}"
        environment.say(f"{what}: looking for {pin}, {search_s:.0f} s at most")
        try:
            return environment.install(what, [pin], *options, search_s=search_s)
        except SetupError as error:
            environment.say(f"{what}: {error}")
    what = "torch's CUDA build from PyPI, which runs on CPUs too"
    return environment.install(what, pins(PYPI_TORCH.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Installs a lock file into an environment.")
    parser.add_argument("venv", type=Path, help="made when it is not there")
    parser.add_argument("lock", type=Path)
    parser.add_argument("--editable", metavar="PROJECT", help="installed too, as a link to it")
    options = parser.parse_args()
    if sys.version_info[:2] not in {(3, 11), (3, 12)}:
        parser.error(f"Python 3.11 or 3.12 is needed; this is {sys.version.split()[0]}")
    began = time.monotonic()
    environment = Environment(
        options.venv, lambda text: print(f"[{time.monotonic() - began:4.0f} s] {text}", flush=True)
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        wanted = pins(options.lock.read_text())
        environment.prepare()
        for pin in [pin for pin in wanted if re.fullmatch(r"torch==.+\+cpu", pin)]:
            install_torch(environment, pin)
            wanted.remove(pin)
        environment.install(options.lock.name, wanted)
        if options.editable:
            project = f"--editable={options.editable}"
            environment.install("auricle", [project], "--no-build-isolation")
    except (SetupError, KeyboardInterrupt) as error:
        environment.say(f"set-up stopped: {str(error) or 'interrupted'}; run it again to continue")
        sys.exit(1)


if __name__ == "__main__":
    main()
