"""Every mistake of a configuration at once, with nothing started: what is written, not what is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from auricle.kubernetes_settings import KubernetesSettings
from auricle.launcher.config import (
    ALIKE,
    COMMON,
    KNOWN_SECTIONS,
    KUBERNETES,
    Sections,
    did_you_mean,
)
from auricle.launcher.options import options
from auricle.settings import SECTIONS, CommonSettings

NO_VALUE = object()
# By pydantic's types of errors.
_WRONG = {
    "literal_error": "not one of those",
    "string_pattern_mismatch": "of another form",
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "out of bounds"
    ),
}


@dataclass(frozen=True)
class Mistake:
    """One thing to put right: its key, its value, what is wrong with it, and what would be right.

    `key` is a section's or `Section.key`; `value` is NO_VALUE where the key itself is wrong, or
    several values are. `right` is empty where `wrong` says it in the same sentence.
    """

    key: str
    wrong: str
    right: str = ""
    value: object = NO_VALUE


@dataclass
class Checked:
    """The mistakes of a configuration; `settings` are the sections that are valid without them."""

    mistakes: list[Mistake] = field(default_factory=list)
    settings: dict[str, CommonSettings] = field(default_factory=dict)

    def add(self, *found: Mistake) -> None:
        """Add mistakes once: one in `Common` is met in every section."""
        for one in found:
            if one not in self.mistakes:
                self.mistakes.append(one)


def check_sections(sections: Sections) -> Checked:
    """Return all mistakes in sections, keys, and values, and of values that exclude each other.

    A value that is wrong by itself is left out before values are looked at together.
    """
    checked = Checked()
    for section in sections:
        if section not in KNOWN_SECTIONS:
            right = did_you_mean(section, KNOWN_SECTIONS)
            checked.add(Mistake(section, "unknown section", right))
    common = _known_of_common(sections.get(COMMON, {}), checked)
    for component, kind in SECTIONS.items():
        own = _without_alike(component, sections.get(component, {}), checked)
        valid = _valid(component, kind, common, own, checked)
        if isinstance(valid, CommonSettings):
            checked.settings[component] = valid
    _valid(KUBERNETES, KubernetesSettings, {}, dict(sections.get(KUBERNETES, {})), checked)
    return checked


def _known_of_common(common: Mapping[str, Any], checked: Checked) -> dict[str, Any]:
    for key in common:
        if key not in CommonSettings.model_fields:
            right = _where_it_belongs(key)
            checked.add(Mistake(f"{COMMON}.{key}", "unknown key", right))
    return {k: v for k, v in common.items() if k in CommonSettings.model_fields}


def _where_it_belongs(key: str) -> str:
    """Return the sections that have a key which is not for all of them, else the nearest key."""
    having = [f"{section}.{key}" for section, kind in SECTIONS.items() if key in kind.model_fields]
    if having:
        return f"it is not for all components: set {' or '.join(having)}"
    return did_you_mean(key, CommonSettings.model_fields)


def _without_alike(component: str, own: Mapping[str, Any], checked: Checked) -> dict[str, Any]:
    for key in ALIKE:
        if key in own:
            wrong, right = "must be the same in all components", f"set {COMMON}.{key}"
            checked.add(Mistake(f"{component}.{key}", wrong, right, own[key]))
    return {key: value for key, value in own.items() if key not in ALIKE}


def _valid(
    section: str,
    kind: type[BaseModel],
    common: dict[str, Any],
    own: dict[str, Any],
    checked: Checked,
) -> BaseModel | None:
    """Return the section without its wrong values; None if they exclude each other.

    Each round leaves out at least one key, so there are at most as many as keys.
    """
    common = dict(common)
    while True:
        try:
            return kind(**{**common, **own})
        except ValidationError as error:
            problems = error.errors(include_url=False)
        checked.add(*_mistakes(section, kind, own, problems))
        wrong = {str(problem["loc"][0]) for problem in problems if problem["loc"]}
        if not wrong:
            return None
        for key in wrong:
            (own if key in own else common).pop(key, None)


def _mistakes(
    section: str, kind: type[BaseModel], own: Mapping[str, Any], problems: list[ErrorDetails]
) -> Iterator[Mistake]:
    known = options(kind)
    for problem in problems:
        path = [str(part) for part in problem["loc"] if isinstance(part, str)]
        home = section if not path or path[0] in own else COMMON
        name = ".".join(path)
        key = ".".join([home, *path])
        if problem["type"] == "extra_forbidden":
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
