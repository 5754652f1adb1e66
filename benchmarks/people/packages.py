"""Voices out of Debian's packages: another speech synthesiser, and recordings of a person.

Packages are downloaded with apt-get and unpacked below `build/people`; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.prepared import ROOT

_FOLDER = ROOT / "build/people"
_SECONDS = 300
# flite's licence is BSD-like; the recordings are Allison Smith's, CC-BY-SA 3.0.
_FLITE = ("flite", "libflite1")
_PROMPTS = ("asterisk-core-sounds-en-g722",)


class NoPackages(Exception):
    """The packages are not here and cannot be downloaded; the message says how to get them."""


def flite() -> tuple[Path, dict[str, str]]:
    """Return the program flite, and the environment in which it finds its libraries."""
    root = _unpacked("flite", _FLITE)
    (libraries,) = {path.parent for path in root.rglob("libflite.so.1")}
    return root / "usr/bin/flite", os.environ | {"LD_LIBRARY_PATH": str(libraries)}


def prompts() -> Path:
    """Return the folder of a person's recorded words: G.722 files at 16 kHz, `digits/1.g722`."""
    root = _unpacked("asterisk", _PROMPTS)
    (digits,) = root.rglob("digits")
    return digits.parent


def _unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return the folder that the packages are unpacked in; it is complete once it has its name."""
    done = _FOLDER / name
    if done.is_dir():
        return done
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NoPackages(f"{program} is needed, to download {', '.join(packages)} (Debian)")
    work = _FOLDER / f"{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    (work / "packages").mkdir(parents=True)
    _run(["apt-get", "download", *packages], work / "packages")
    for package in sorted((work / "packages").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(work)], work)
    shutil.rmtree(work / "packages")
    return work.rename(done)


def _run(command: list[str], folder: Path) -> None:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if result.returncode != 0:
        raise NoPackages(
            f"{' '.join(command)} failed (is apt-get update needed?):\n{result.stderr.strip()}"
        )
