"""Programs, voices and recordings out of Debian's packages, without installing anything.

    python -m models.training.packages

downloads and unpacks those of `models.training.sources` below `build/packages`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build/packages"
_SECONDS = 600


class NoPackages(Exception):
    """The packages are not here and cannot be downloaded; the message says how to get them."""


def unpacked(name: str, packages: Sequence[str], folder: Path = FOLDER) -> Path:
    """Return the folder that packages and what they need are unpacked in.

    It is complete once it has its name. What the system has installed is not unpacked again, the
    packages themselves excepted. Raises NoPackages.
    """
    done = folder / name
    if done.is_dir():
        return done
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NoPackages(f"{program} is needed, to download {', '.join(packages)} (Debian)")
    work = folder / f"{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    (work / "packages").mkdir(parents=True)
    _run(["apt-get", "download", *packages, *_needed(packages, work)], work / "packages")
    for package in sorted((work / "packages").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(work)], work)
    shutil.rmtree(work / "packages")
    return work.rename(done)


def libraries(root: Path) -> dict[str, str]:
    """Return the environment in which programs below `root` find their shared libraries."""
    folders = sorted({str(path.parent) for path in (root / "usr/lib").rglob("*.so*")})
    return os.environ | {"LD_LIBRARY_PATH": ":".join(folders)}


def _needed(packages: Sequence[str], folder: Path) -> list[str]:
    """Return what apt-get would install besides `packages`."""
    command = ["apt-get", "install", "--simulate", "--no-install-recommends", "-qq", *packages]
    lines = (line.split() for line in _run(command, folder).splitlines())
    return [line[1] for line in lines if line[0] == "Inst" and line[1] not in packages]


def _run(command: list[str], folder: Path) -> str:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if result.returncode != 0:
        raise NoPackages(
            f"{' '.join(command)} failed (is apt-get update needed?):\n{result.stderr.strip()}"
        )
    return result.stdout
