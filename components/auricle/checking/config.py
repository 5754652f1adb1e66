"""`auricle check-config`: says all that is wrong with a configuration, and starts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from auricle.checking.named_files import check_files
from auricle.checking.together import check_together
from auricle.launcher.config import (
    COMMON,
    KUBERNETES,
    Mistake,
    Sections,
    check_sections,
    load_config,
    located,
)
from auricle.launcher.config_places import Places, places
from auricle.settings import CommonSettings


def check_config(path: Path, overrides: Sequence[str], *, files: bool, as_json: bool) -> bool:
    """Print what is wrong with a configuration; return whether nothing is.

    Without `files` those that it names are not looked at. Raises SettingsError if `path` cannot be
    read, is not YAML or has no sections, and for an override of another form.
    """
    sections = load_config(path, overrides)
    found = findings(path, sections, files=files)
    if as_json:
        told = {"file": str(path), "right": not found, "mistakes": found}
        print(msgspec.json.format(msgspec.json.encode(told, enc_hook=str)).decode())
    else:
        print("\n".join(map(str, found)) or f"{path} is right.")
    return not found


def findings(path: Path, sections: Sections, *, files: bool) -> list[Mistake]:
    """Return the mistakes in the order of the file, then those of the command line."""
    checked = check_sections(sections)
    where = places(path.read_text())
    checked.add(*_twice(where))
    running = {
        name: own
        for name, own in checked.settings.items()
        if name != KUBERNETES and _runs(name, own, sections)
    }
    checked.add(*_of_valid(running, sections, files=files))
    found = [located(mistake, sections, str(path)) for mistake in checked.mistakes]
    found = [
        msgspec.structs.replace(one, line=where.line(one.key)) if one.source == str(path) else one
        for one in found
    ]
    return sorted(found, key=lambda one: (one.source != str(path), one.line or 0))


def _runs(name: str, settings: CommonSettings, sections: Sections) -> bool:
    """Whether a component is part of what the file is for; Dynamo's frontend is if it is named."""
    return settings.replicas > 0 and (name != "DynamoFrontend" or name in sections)


def _twice(where: Places) -> Iterator[Mistake]:
    for one in where.twice:
        wrong = f"set twice, at line {one.first} and at line {one.second}"
        yield Mistake(one.key, wrong, "leave out one; YAML takes the last")


def _of_valid(
    settings: dict[str, CommonSettings], sections: Sections, *, files: bool
) -> Iterator[Mistake]:
    if files:
        for name, own in settings.items():
            yield from check_files(own, partial(_home, sections, name))
    # Pods have addresses of their own, and machines too.
    alone = KUBERNETES not in sections and all(s.discovery == "file" for s in settings.values())
    yield from check_together(settings, one_machine=alone)


def _home(sections: Sections, section: str, key: str) -> str:
    """Return the key with the section that sets it; unset ones are those of `Common` if it can."""
    own = key in sections.get(section, {}) or key not in CommonSettings.model_fields
    return f"{section if own else COMMON}.{key}"
