"""Writes docs/settings.md: every section and key of config files, as the settings declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from pydantic import BaseModel

from auricle.kubernetes_settings import KubernetesSettings
from auricle.launcher.config import COMMON, KUBERNETES
from auricle.launcher.options import Option, options
from auricle.settings import SECTIONS, CommonSettings

_TOP = f"""\
# Settings

Written by `make interfaces` from the settings' own declarations; not to be edited.

A config file is YAML: sections, and in each the keys below. `{COMMON}` is for all components; what
a component's own section says goes before it, and the command line before both, as in
`--Frontend.port=9000`. Every component takes the keys of `{COMMON}` in its own section too, but
for `placement` and `block_size`, which must be the same everywhere. A start fails with an
error that names every unknown key and every value out of bounds; `auricle check-config FILE` also
checks the files that the settings name, without starting anything.

Names end in their units. `null` stands for a value that is not set.

"""
_ABOUT = {
    COMMON: "Of all components.",
    "Frontend": "What clients reach: see [limits](limits.md) and [ways in](ways_in.md).",
    "DynamoFrontend": "The unmodified `python -m dynamo.frontend`, where a graph has one.",
    "Processor": "Sessions: what is decoded when, and what of it is committed.",
    "EncodeWorker": "The encoder pool; [embeddings](embeddings.md) says where they are kept.",
    "PdWorker": "The pool of vLLM's engines; [GPUs](gpu.md) has the arithmetic.",
    "Planner": "What sizes the pools: see [planner](planner.md).",
    KUBERNETES: "Of `auricle render` only: the cluster for which it writes manifests.",
}


def sections() -> Mapping[str, type[BaseModel]]:
    """Return the settings of all sections, `Common` first."""
    return {COMMON: CommonSettings, **SECTIONS, KUBERNETES: KubernetesSettings}


def own_options(kind: type[BaseModel]) -> list[Option]:
    """Return the options of a section without those that it has from `Common` as they are."""
    common = {} if kind is CommonSettings else options(CommonSettings)
    return [option for key, option in options(kind).items() if common.get(key) != option]


def settings_page() -> str:
    """Return the page: a table of options for each section."""
    return _TOP + "\n".join(line for name in sections() for line in _section(name)) + "\n"


def _section(name: str) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    if name in _ABOUT:
        yield _ABOUT[name]
        yield ""
    yield "| key | type | default | unit | what it is |"
    yield "|---|---|---|---|---|"
    for option in own_options(sections()[name]):
        takes = f"{option.takes}{', ' if option.bounds else ''}{option.bounds}"
        cells = (f"`{option.key}`", takes, _default(option.default), option.unit, _said(option))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(value: object) -> str:
    """Return a default as YAML has it."""
    if value == "":
        return "empty"
    if isinstance(value, PurePath):
        value = value.as_posix()
    if isinstance(value, tuple):
        value = list(value)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _said(option: Option) -> str:
    """Return the description as a sentence."""
    text = option.description
    first = text.partition(" ")[0]
    if first.islower():  # unlike vLLM's
        text = text[:1].upper() + text[1:]
    return f"{text}."
