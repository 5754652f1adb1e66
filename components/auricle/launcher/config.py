"""Config files: one section per component and `Common`, overridable on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from auricle.errors import SettingsError
from auricle.settings import SECTIONS, CommonSettings, KubernetesSettings

COMMON, KUBERNETES = "Common", "Kubernetes"
# Components that differ in these find nothing of each other's.
_ALIKE = ("placement", "block_size")
Sections = dict[str, dict[str, Any]]


def load_config(path: Path | None, overrides: Iterable[str] = ()) -> Sections:
    """Sections of the file with `--Component.key=value` overrides applied, not yet validated."""
    sections = {} if path is None else _read(path)
    for override in overrides:
        section, key, value = _parse_override(override)
        sections.setdefault(section, {})[key] = value
    known = (COMMON, *SECTIONS, KUBERNETES)
    where = path or "the command line"
    for section in sections:
        if section not in known:
            raise SettingsError(f"{where}: unknown section {section!r}{_hint(section, known)}")
    return sections


def settings_for(component: str, sections: Mapping[str, dict[str, Any]], source: str) -> Any:
    """Validated settings of one component; raises SettingsError naming section, key and file."""
    kind = SECTIONS[component]
    common = sections.get(COMMON, {})
    for key in common:
        if key not in CommonSettings.model_fields:
            raise SettingsError(
                f"{source}: unknown key {COMMON}.{key}{_hint(key, CommonSettings.model_fields)}"
            )
    own = sections.get(component, {})
    for key in _ALIKE:
        if key in own:
            raise SettingsError(
                f"{source}: {component}.{key} must be the same everywhere; set {COMMON}.{key}"
            )
    try:
        return kind(**{**common, **own})
    except ValidationError as error:
        raise SettingsError(_describe(error, component, own, kind, source)) from None


def kubernetes_settings(sections: Mapping[str, dict[str, Any]], source: str) -> KubernetesSettings:
    """Of `auricle render`; raises SettingsError naming key and file."""
    own = sections.get(KUBERNETES, {})
    try:
        return KubernetesSettings(**own)
    except ValidationError as error:
        raise SettingsError(_describe(error, KUBERNETES, own, KubernetesSettings, source)) from None


def _describe(
    error: ValidationError,
    component: str,
    own: Mapping[str, Any],
    kind: type[BaseModel],
    source: str,
) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        section = component if key in own else COMMON
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key {section}.{key}{_hint(key, kind.model_fields)}")
        else:
            lines.append(f"{section}.{key} is {problem['input']!r}: {problem['msg']}")
    return f"{source}: " + "; ".join(lines)


def _read(path: Path) -> Sections:
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


def _hint(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"
