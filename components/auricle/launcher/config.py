"""Config files: `Common` and one section per component; the command line overrides values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from auricle.errors import SettingsError
from auricle.kubernetes_settings import KubernetesSettings
from auricle.settings import SECTIONS, CommonSettings

COMMON, KUBERNETES = "Common", "Kubernetes"
KNOWN_SECTIONS = (COMMON, *SECTIONS, KUBERNETES)
# Components can work together only if these are equal in all of them.
ALIKE = ("placement", "block_size")
COMMAND_LINE = "the command line"


class Sections(dict[str, dict[str, Any]]):
    """Settings by section and key; `overridden` lists those that the command line has set."""

    def __init__(self, values: Mapping[str, dict[str, Any]]) -> None:
        super().__init__(values)
        self.overridden: set[tuple[str, str]] = set()
        self._written = frozenset(values)

    def override(self, section: str, key: str, value: object) -> None:
        """Set what the command line says."""
        self.setdefault(section, {})[key] = value
        self.overridden.add((section, key))

    def source_of_section(self, section: str, otherwise: str) -> str:
        """Return who named the section first: the command line, or `otherwise`."""
        return otherwise if section in self._written else COMMAND_LINE

    def source(self, section: str, key: str, otherwise: str) -> str:
        """Return where a setting is from: the command line, or `otherwise`."""
        return COMMAND_LINE if (section, key) in self.overridden else otherwise


def load_config(path: Path | None, overrides: Iterable[str] = ()) -> Sections:
    """Return the file's sections with the overrides `--Component.key=value` applied.

    Keys and values are not validated yet. Raises SettingsError if the file cannot be read or is
    not YAML of the right form, for an unknown section and for an override of another form.
    """
    sections = read_sections(path, overrides)
    for section in sections:
        if section not in KNOWN_SECTIONS:
            where = sections.source_of_section(section, str(path))
            hint = did_you_mean(section, KNOWN_SECTIONS)
            raise SettingsError(f"{where}: unknown section {section!r}; {hint}")
    return sections


def read_sections(path: Path | None, overrides: Iterable[str] = ()) -> Sections:
    """The same, with sections that are unknown left in."""
    sections = Sections({} if path is None else _read(path))
    for override in overrides:
        section, key, value = _parse_override(override)
        sections.override(section, key, value)
    return sections


def settings_for(component: str, sections: Mapping[str, dict[str, Any]], source: str) -> Any:
    """Return the validated settings of one component.

    Raises SettingsError that names section, key and origin: `source` or the command line.
    """
    kind = SECTIONS[component]
    common = sections.get(COMMON, {})
    for key in common:
        if key not in CommonSettings.model_fields:
            raise SettingsError(
                f"{_source(sections, COMMON, key, source)}: unknown key {COMMON}.{key}"
                f"; {did_you_mean(key, CommonSettings.model_fields)}"
            )
    own = sections.get(component, {})
    for key in ALIKE:
        if key in own:
            raise SettingsError(
                f"{_source(sections, component, key, source)}: {component}.{key} must be the "
                f"same everywhere; set {COMMON}.{key}"
            )
    try:
        return kind(**{**common, **own})
    except ValidationError as error:
        raise SettingsError(_describe(error, component, sections, kind, source)) from None


def kubernetes_settings(sections: Mapping[str, dict[str, Any]], source: str) -> KubernetesSettings:
    """Return the validated settings of `auricle render`.

    Raises SettingsError that names key and origin.
    """
    own = sections.get(KUBERNETES, {})
    try:
        return KubernetesSettings(**own)
    except ValidationError as error:
        raise SettingsError(
            _describe(error, KUBERNETES, sections, KubernetesSettings, source)
        ) from None


def _describe(
    error: ValidationError,
    component: str,
    sections: Mapping[str, dict[str, Any]],
    kind: type[BaseModel],
    source: str,
) -> str:
    own = sections.get(component, {})
    lines: dict[str, list[str]] = {}
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        key = ".".join(path)
        section = component if not path or path[0] in own else COMMON
        where = _source(sections, section, path[0] if path else "", source)
        found = lines.setdefault(where, [])
        if problem["type"] == "extra_forbidden":
            found.append(f"unknown key {section}.{key}; {did_you_mean(key, kind.model_fields)}")
        elif problem["type"] == "value_error":
            # A validator of several values; its message names them.
            found.append(f"{'.'.join([section, *path])}: {problem['ctx']['error']}")
        else:
            found.append(f"{section}.{key} is {problem['input']!r}: {problem['msg']}")
    return "; ".join(f"{where}: {'; '.join(what)}" for where, what in lines.items())


def _source(sections: Mapping[str, dict[str, Any]], section: str, key: str, otherwise: str) -> str:
    """Return where a setting is from; a plain mapping has no overrides."""
    return sections.source(section, key, otherwise) if isinstance(sections, Sections) else otherwise


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
    """Return a question that names the nearest of what is known, or all of it."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
