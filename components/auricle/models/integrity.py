"""Whether the files of a model are still those that were pulled."""

from __future__ import annotations

from pathlib import Path

from auricle.models import store
from auricle.models.errors import DamagedModel


def check_files(name: str, folder: Path) -> None:
    """Raise DamagedModel if a model that was pulled differs from its record; reads all of it."""
    if store.find(name) != folder:
        return
    if damage := store.differing(folder):
        raise DamagedModel(
            f"{name} is damaged: {'; '.join(damage)}; "
            f"`auricle models remove {name}` and pull it again"
        )
