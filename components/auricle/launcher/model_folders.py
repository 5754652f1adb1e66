"""Names of models in settings, replaced by the folders in which the models are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from auricle.checkpoints.download.pull import servable
from auricle.core.errors import SettingsError
from auricle.launcher.config import Sections, all_settings

# Settings that name a model, and the components that read it.
READERS = {
    "model": ("Frontend", "Processor", "EncodeWorker", "PdWorker"),
    "align_model": ("AlignEncodeWorker", "AlignWorker"),
    "translate_model": ("TranslateWorker",),
}


def place_models(
    components: Iterable[str], sections: Sections, source: str, say: Callable[[str], None]
) -> list[str]:
    """Replace names of models in the sections of components; return the overrides that do so.

    `say` receives a line for each model that was converted, which blocks for seconds. Raises
    SettingsError for a model that a component reads and that was not pulled, and CheckpointError
    for one that cannot be converted.
    """
    found = []
    folders: dict[Path, Path] = {}
    for component, settings in all_settings(components, sections, source).items():
        for key, readers in READERS.items():
            named: Path | None = getattr(settings, key)
            if named is None:
                continue
            if named not in folders:
                try:
                    folders[named] = servable(named, say)
                except SettingsError as error:
                    if component in readers and settings.replicas:
                        raise SettingsError(f"Common.{key}: {error}") from None
                    continue
            if folders[named] != named:
                sections.override(component, key, str(folders[named]))
                found.append(f"--{component}.{key}={folders[named]}")
    return found
