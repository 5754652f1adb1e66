"""`auricle check-config`: says all that is wrong with a configuration, and starts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from auricle.checking.named_files import check_files
from auricle.checking.together import check_together
from auricle.launcher.config import COMMON, KUBERNETES, Sections, read_sections
from auricle.launcher.config_check import NO_VALUE, Mistake, check_sections
from auricle.launcher.config_places import Places, places
from auricle.quoting import one_line
from auricle.settings import CommonSettings


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mistake and where it was made: the file or the command line, and the line in the file."""

    source: str
    key: str
    wrong: str
    right: str = ""
    value: object = msgspec.UNSET
    line: int | None = None

    def __str__(self) -> str:
        """One line, as compilers and linters write them."""
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        value = "" if self.value is msgspec.UNSET else f" is {self.value!r}"
        # Errors of a start begin with the key themselves.
        subject = "" if self.wrong.startswith(f"{self.key} ") else f"{self.key}{value}: "
        right = f"; {self.right}" if self.right else ""
        return one_line(f"{where}: {subject}{self.wrong}{right}")


def check_config(path: Path, overrides: Sequence[str], *, files: bool, as_json: bool) -> bool:
    """Print what is wrong with a configuration; return whether nothing is.

    Without `files` those that it names are not looked at. Raises SettingsError if `path` cannot be
    read, is not YAML or has no sections, and for an override of another form.
    """
    sections = read_sections(path, overrides)
    found = findings(path, sections, files=files)
    if as_json:
        told = {"file": str(path), "right": not found, "mistakes": found}
        print(msgspec.json.format(msgspec.json.encode(told, enc_hook=str)).decode())
    else:
        print("\n".join(map(str, found)) or f"{path} is right.")
    return not found


def findings(path: Path, sections: Sections, *, files: bool) -> list[Finding]:
    """Return the findings in the order of the file, then those of the command line."""
    checked = check_sections(sections)
    where = places(path.read_text())
    checked.add(*_twice(where))
    running = {name: own for name, own in checked.settings.items() if _runs(name, own, sections)}
    checked.add(*_of_valid(running, sections, files=files))
    found = [_finding(mistake, path, sections, where) for mistake in checked.mistakes]
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


def _finding(mistake: Mistake, path: Path, sections: Sections, where: Places) -> Finding:
    section, _, key = mistake.key.partition(".")
    first = key.partition(".")[0]
    source = (
        sections.source(section, first, str(path))
        if key
        else sections.source_of_section(section, str(path))
    )
    value = msgspec.UNSET if mistake.value is NO_VALUE else mistake.value
    line = where.line(mistake.key) if source == str(path) else None
    return Finding(source, mistake.key, mistake.wrong, mistake.right, value, line)
