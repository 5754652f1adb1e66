"""Config files: `Common` and one section per component; the command line overrides values.

One validator serves all commands: it finds every mistake at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from auricle.config.kubernetes import KubernetesSettings
from auricle.config.settings import FORMER, SECTIONS, CommonSettings
from auricle.core.errors import SettingsError
from auricle.core.sanitize import one_line
from auricle.launcher.options import options

COMMON, KUBERNETES = "Common", "Kubernetes"
COMMAND_LINE = "the command line"
_KINDS: dict[str, type[BaseModel]] = {**SECTIONS, KUBERNETES: KubernetesSettings}
_KNOWN_SECTIONS = (COMMON, *_KINDS)
# Components can work together only if these are equal in all of them.
_ALIKE = ("placement", "block_size")
# By pydantic's types of errors.
_WRONG = {
    "literal_error": "not one of those",
    "string_pattern_mismatch": "of another form",
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "out of bounds"
    ),
}


class Sections(dict[str, dict[str, Any]]):
    """Settings by section and key, and which of them the command line has set."""

    def __init__(self, values: Mapping[str, dict[str, Any]]) -> None:
        super().__init__(values)
        self._overridden: set[tuple[str, str]] = set()
        self._written = frozenset(values)

    def override(self, section: str, key: str, value: object) -> None:
        """Set a value of the command line."""
        self.setdefault(section, {})[key] = value
        self._overridden.add((section, key))

    def source(self, name: str, otherwise: str) -> str:
        """Return where a section, or its setting `Section.key`, is from: the command line, or
        `otherwise`.
        """
        section, _, key = name.partition(".")
        if key:
            overridden = (section, key.partition(".")[0]) in self._overridden
        else:
            overridden = section not in self._written and section in self
        return COMMAND_LINE if overridden else otherwise


class Mistake(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mistake in the settings: its place, key and value, the problem, and the remedy.

    `source` is the file or the command line, `line` the line in the file. `key` is a section's or
    `Section.key`; `value` is unset if the key itself is wrong, or several values are. `right` is
    empty if `wrong` names the remedy in the same sentence.
    """

    key: str
    wrong: str
    right: str = ""
    value: object = msgspec.UNSET
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        """One line, as compilers and linters write them."""
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        value = "" if self.value is msgspec.UNSET else f" is {self.value!r}"
        # Errors of a start begin with the key themselves.
        subject = "" if self.wrong.startswith(f"{self.key} ") else f"{self.key}{value}: "
        right = f"; {self.right}" if self.right else ""
        return one_line(f"{where}: {subject}{self.wrong}{right}")


@dataclass
class Checked:
    """The mistakes of a configuration; `settings` are the sections that are valid without them."""

    mistakes: list[Mistake] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def add(self, *found: Mistake) -> None:
        """Add mistakes once: one in `Common` is met in every section."""
        for one in found:
            if one not in self.mistakes:
                self.mistakes.append(one)


def load_config(path: Path | None, overrides: Iterable[str] = ()) -> Sections:
    """Return the file's sections with the overrides `--Component.key=value` applied.

    Sections, keys and values are not validated yet. Raises SettingsError if the file cannot be
    read or is not YAML of the right form, and for an override of another form.
    """
    sections = Sections({} if path is None else _read(path))
    for override in overrides:
        sections.override(*_parse_override(override))
    return sections


def settings_for(component: str, sections: Mapping[str, dict[str, Any]], source: str) -> Any:
    """Return the validated settings of one component, or of `Kubernetes`, as `all_settings`."""
    return all_settings([component], sections, source)[component]


def all_settings(
    names: Iterable[str], sections: Mapping[str, dict[str, Any]], source: str
) -> dict[str, Any]:
    """Return the validated settings of these sections.

    Raises SettingsError with all mistakes, each with its key and origin: `source` or the command
    line.
    """
    checked = check_sections(sections, names)
    if checked.mistakes:
        raise SettingsError(
            "; ".join(str(located(mistake, sections, source)) for mistake in checked.mistakes)
        )
    return checked.settings


def located(mistake: Mistake, sections: Mapping[str, dict[str, Any]], source: str) -> Mistake:
    """Return a mistake with its origin; a plain mapping has no overrides."""
    if isinstance(sections, Sections):
        source = sections.source(mistake.key, source)
    return msgspec.structs.replace(mistake, source=source)


def check_sections(
    sections: Mapping[str, dict[str, Any]], names: Iterable[str] = tuple(_KINDS)
) -> Checked:
    """Return all mistakes in the names of sections, and in keys and values of the sections `names`.

    A value that is wrong by itself is left out before values are looked at together.
    """
    checked = Checked()
    for section in sections:
        if section not in _KNOWN_SECTIONS:
            right = did_you_mean(section, _KNOWN_SECTIONS)
            checked.add(Mistake(section, "unknown section", right))
    common = _known_of_common(sections.get(COMMON, {}), checked)
    for name in names:
        own = dict(sections.get(name, {}))
        if name != KUBERNETES:
            own = _without_alike(name, own, checked)
        valid = _valid(name, {} if name == KUBERNETES else common, own, checked)
        if valid is not None:
            checked.settings[name] = valid
    return checked


def _known_of_common(common: Mapping[str, Any], checked: Checked) -> dict[str, Any]:
    for key in common:
        if key not in CommonSettings.model_fields:
            right = _where_it_belongs(key)
            checked.add(Mistake(f"{COMMON}.{key}", "unknown key", right))
    return {k: v for k, v in common.items() if k in CommonSettings.model_fields}


def _where_it_belongs(key: str) -> str:
    """Return the sections that have this key, or the nearest common key if none has it."""
    having = [f"{section}.{key}" for section, kind in SECTIONS.items() if key in kind.model_fields]
    if having:
        return f"it is not for all components: set {' or '.join(having)}"
    return did_you_mean(key, CommonSettings.model_fields)


def _without_alike(component: str, own: Mapping[str, Any], checked: Checked) -> dict[str, Any]:
    for key in _ALIKE:
        if key in own:
            wrong, right = "must be the same in all components", f"set {COMMON}.{key}"
            checked.add(Mistake(f"{component}.{key}", wrong, right, own[key]))
    return {key: value for key, value in own.items() if key not in _ALIKE}


def _valid(
    section: str, common: dict[str, Any], own: dict[str, Any], checked: Checked
) -> BaseModel | None:
    """Return the section without its wrong values; None if they exclude each other.

    Each round leaves out at least one key, so there are at most as many as keys.
    """
    kind, common = _KINDS[section], dict(common)
    while True:
        try:
            return kind(**{**common, **own})
        except ValidationError as error:
            problems = error.errors(include_url=False)
        checked.add(*_mistakes(section, own, problems))
        wrong = {str(problem["loc"][0]) for problem in problems if problem["loc"]}
        if not wrong:
            return None
        for key in wrong:
            (own if key in own else common).pop(key, None)


def _mistakes(
    section: str, own: Mapping[str, Any], problems: list[ErrorDetails]
) -> Iterator[Mistake]:
    known = options(_KINDS[section])
    for problem in problems:
        path = [str(part) for part in problem["loc"] if isinstance(part, str)]
        home = section if not path or path[0] in own else COMMON
        name = ".".join(path)
        key = ".".join([home, *path])
        if key in FORMER:
            yield Mistake(key, "former key", FORMER[key])
        elif problem["type"] == "extra_forbidden":
            above = name.rpartition(".")[0]
            near = [option for option in known if option.rpartition(".")[0] == above]
            yield Mistake(key, "unknown key", did_you_mean(name, near or known))
        elif problem["type"] == "value_error":
            # A validator of several values; its message names them, and what would be right.
            yield Mistake(key, str(problem["ctx"]["error"]))
        else:
            # A member of a union or a list is named behind the key; the key is what people wrote.
            name = next((n for n in _prefixes(path) if n in known), name)
            right = known[name].right if name in known else "a mapping of keys to values"
            wrong = _WRONG.get(problem["type"], "of another type")
            yield Mistake(f"{home}.{name}", wrong, f"set {right}", problem["input"])


def _prefixes(path: list[str]) -> Iterator[str]:
    """Yield `a.b.c`, `a.b`, `a`."""
    for length in range(len(path), 0, -1):
        yield ".".join(path[:length])


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(v, dict) for v in content.values()):
        raise SettingsError(f"{path} must hold sections of settings, such as `Frontend: {{…}}`")
    return content


def _parse_override(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.removeprefix("--").partition("=")
    section, dot, key = name.partition(".")
    if not (text.startswith("--") and equals and dot and section and key):
        raise SettingsError(f"{text!r} is not of the form --Component.key=value")
    return section, key, yaml.safe_load(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest known name, or a list of all."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
