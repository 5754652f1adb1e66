"""From what a setting names, a folder or a model that was pulled, to a folder that is served."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from auricle.errors import CheckpointError, SettingsError
from auricle.models import store
from auricle.models.catalog import guess, is_pullable
from auricle.models.convert import FILES, REVISION
from auricle.models.ctranslate2 import is_ctranslate2, read_variables
from auricle.models.pull import converted

_CONVERTED = "converted"


def locate(named: Path) -> Path:
    """Return the folder that a setting names: itself, or that of a model which was pulled.

    Raises SettingsError if there is none; it says how to get it.
    """
    if named.is_dir():
        return named
    name = str(named)
    if (folder := store.find(name)) is not None:
        return folder
    if not store.is_name(name):
        raise SettingsError(f"there is no folder {name}")
    how = f"`auricle models pull {name}` gets it" if is_pullable(name) else guess(name)
    raise SettingsError(f"{name} is no folder here, and no model that was pulled: {how}")


def servable(named: Path, say: Callable[[str], None]) -> Path:
    """Return the folder that a setting names, in a format that is served.

    A folder of CTranslate2 is converted, once for its content; `say` then receives a line. A path
    that does not exist is returned as it is. Blocks for seconds. Raises SettingsError for a name
    that was not pulled, and CheckpointError for a folder that cannot be converted.
    """
    if not named.is_dir() and not store.is_name(str(named)):
        return named  # whoever reads it says what is wrong
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
    """Raise CheckpointError if a folder of CTranslate2 lacks what its conversion reads."""
    for name in FILES:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has a model.bin of CTranslate2, but no {name}")
    read_variables(folder / "model.bin")


def _name_of(folder: Path) -> str:
    """Return the name of a conversion: by content, and last as the folder, which clients see."""
    check_ctranslate2(folder)
    digest = hashlib.sha256(str(REVISION).encode())
    for file in FILES:
        digest.update(store.sha256(folder / file).encode())
    last = folder.resolve().name
    return f"{_CONVERTED}/{digest.hexdigest()[:16]}/{last if store.is_name(last) else 'whisper'}"
