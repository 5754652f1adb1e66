"""Names in the documents against names in the code: metrics, settings, commands, messages, files.

`missing()` lists names in the documents that do not exist, and `undocumented()` lists public names
that the documents lack. Each entry names its page or its kind.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import click
from pydantic import BaseModel

from auricle.cli import main
from auricle.config.kubernetes import KubernetesSettings
from auricle.config.settings import SECTIONS, CommonSettings
from auricle.core import errors
from auricle.frontend.protocols.stream import messages as protocol
from auricle.protocol import stream
from auricle_testing.metric_names import exported
from auricle_testing.server import ROOT

PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted(
        [
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "deploy").rglob("*.md"),
            *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
            ROOT / "models/demo/README.md",
        ]
    )
}
ALL = "\n".join(PAGES.values())
SETTINGS: dict[str, type[BaseModel]] = {
    "Common": CommonSettings,
    **SECTIONS,
    "Kubernetes": KubernetesSettings,
}
LIVE = PAGES["docs/websocket.md"]
# They look like metrics: the stream of the transcript bus, and a package.
_NO_METRICS = {"auricle_transcripts", "auricle_testing"}
# These codes are for other processes of a deployment or for an operator's terminal, not for
# clients.
_NOT_FOR_CLIENTS = {
    *("checkpoint", "settings", "process_failed", "features_missing"),
    "other_wire_version",
}


def missing() -> list[str]:
    """Every name in the documents that does not exist."""
    found = [f"{page}: {name}" for page in PAGES for name in missing_on(page)]
    return found + missing_messages() + missing_variables()


def undocumented() -> list[str]:
    """Every name that users meet and that the documents lack."""
    return [*undocumented_settings(), *undocumented_commands(), *undocumented_messages()]


def missing_on(page: str) -> list[str]:
    """Names on a page that do not exist."""
    text = PAGES[page]
    finders = (_metrics, _settings, _commands, _targets, _modules, _files)
    return [name for finder in finders for name in finder(text)]


def code(text: str) -> list[str]:
    """The contents of code blocks (line by line) and of code spans (on one line each)."""
    found: list[str] = []
    for number, part in enumerate(re.split(r"^[ \t]*```.*$", text, flags=re.MULTILINE)):
        spans = re.findall(r"`([^`]+)`", part)
        found += part.splitlines() if number % 2 else [" ".join(s.split()) for s in spans]
    return found


@cache
def _all_code() -> str:
    return "\n".join(line for text in PAGES.values() for line in code(text))


# ── metrics and settings ────────────────────────────────────────────────────


@cache
def _exported() -> frozenset[str]:
    return frozenset(exported())


def _metrics(text: str) -> Iterator[str]:
    named = set(re.findall(r"\bauricle_[a-z]\w+", text))
    yield from sorted(named - _NO_METRICS - _exported())


def _keys_of(section: type[BaseModel]) -> set[str]:
    """`key`, and also `key.inner` for nested settings."""
    found = set()
    for key, field in section.model_fields.items():
        found.add(key)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {f"{key}.{inner}" for inner in kind.model_fields}
    return found


def _settings(text: str) -> Iterator[str]:
    sections = "|".join(SETTINGS)
    for section, key in re.findall(
        rf"(?<!py:)\b({sections})\.([a-z]\w*(?:\.[a-z]\w*)?)", "\n".join(code(text))
    ):
        if key not in _keys_of(SETTINGS[section]):
            yield f"{section}.{key}"


def undocumented_settings() -> list[str]:
    """Settings that no document names."""
    return [
        f"{section}.{key}"
        for section, kind in SETTINGS.items()
        for key in kind.model_fields
        if section in ("Common", "Kubernetes") or key not in CommonSettings.model_fields
        if not re.search(rf"\b{key}\b", _all_code())
    ]


# ── commands and their options, targets of make, modules ────────────────────


def commands(group: click.Group, before: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """All commands by their words, such as `models check`."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        words = (*before, name)
        if isinstance(command, click.Group):
            found |= commands(command, words)
        else:
            found[" ".join(words)] = command
    return found


_COMMANDS = commands(main)
_GROUPS = {name for name, command in main.commands.items() if isinstance(command, click.Group)}


def _options(command: click.Command) -> list[list[str]]:
    """The names of each option, such as `-f` and `--config`."""
    return [option.opts for option in command.params if isinstance(option, click.Option)]


def _typed(text: str) -> list[str]:
    """The words after `auricle` in each command of a text."""
    found = []
    for line in code(text):
        for part in re.split(r"\s(?:&&|\||>>?)\s|#", line.removeprefix("$ ")):
            words = part.strip().removeprefix("python -m ")
            if re.match(r"auricle( |$)", words):
                found.append(words.removeprefix("auricle").strip())
    return found


def _commands(text: str) -> Iterator[str]:
    for line in _typed(text):
        words = line.split()
        if not words or words[0].startswith("-"):
            continue
        name = " ".join(words[: 2 if words[0] in _GROUPS else 1])
        if name in _GROUPS:
            continue
        if name not in _COMMANDS:
            yield f"auricle {line}"
            continue
        # The commands that accept settings have them as options.
        named = {w.partition("=")[0] for w in words if re.match(r"--[a-z]", w)}
        known = {one for names in _options(_COMMANDS[name]) for one in names} | {"--help"}
        yield from (f"auricle {name} {option}" for option in sorted(named - known))


def undocumented_commands() -> list[str]:
    """Commands and options that no document names."""
    typed, found = _typed(ALL), []
    for name, command in _COMMANDS.items():
        words = name.split()
        if not any(line.split()[: len(words)] == words for line in typed):
            found.append(f"auricle {name}")
        for names in _options(command):
            if not re.search(rf"(?<![\w-])({'|'.join(names)})\b", _all_code()):
                found.append(f"auricle {name} {names[-1]}")
    return found


def _targets(text: str) -> Iterator[str]:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in code(text):
        for target in re.findall(r"(?:^|\$ |&& )make ([a-z][\w-]*)", line):
            if target not in targets:
                yield f"make {target}"


def _modules(text: str) -> Iterator[str]:
    for line in code(text):
        for module in re.findall(r"python -m ((?:benchmarks|models|auricle|tests)[\w.]*)", line):
            if not _importable(module):
                yield f"python -m {module}"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package does not exist either
        return False


# ── messages and error codes ────────────────────────────────────────────────


def tags() -> set[str]:
    """The types of the live protocol's messages."""
    kinds: list[Any] = [protocol.Start, protocol.End, *get_args(stream.Reply)]
    return {str(kind.__struct_config__.tag) for kind in kinds}


def _codes() -> set[str]:
    """The error codes that clients receive."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    told = {kind.code for kind in kinds if issubclass(kind, errors.AuricleError)}
    return told - _NOT_FOR_CLIENTS


def _codes_described() -> set[str]:
    table = LIVE.partition("## Error codes")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


def missing_messages() -> list[str]:
    """Messages and error codes that the live protocol's page describes and the code never sends."""
    described = set(re.findall(r'\{"type": "(\w+)"', LIVE))
    return sorted(described - tags()) + sorted(_codes_described() - _codes())


def undocumented_messages() -> list[str]:
    """Messages and error codes of the live protocol that its page does not describe."""
    plain = {tag for tag in tags() if f"`{tag}`" not in LIVE and f'"type": "{tag}"' not in LIVE}
    return sorted(plain) + sorted(_codes() - _codes_described())


# ── files and variables ─────────────────────────────────────────────────────


_FOLDERS = "components|configs|deploy|docs|examples|graphs|models|protos|tests"
_FILE = re.compile(rf"(?:{_FOLDERS})/[\w./-]+\w|[a-z_]+/[\w/]+\.py")


def _files(text: str) -> Iterator[str]:
    roots = (ROOT, ROOT / "components/auricle", ROOT / "deploy/k8s/h100-0.6b", ROOT / "benchmarks")
    for span in re.findall(r"`([\w./-]+)`", text):
        if _FILE.fullmatch(span) and not any((root / span).exists() for root in roots):
            yield span


def missing_variables() -> list[str]:
    """Our environment variables that the documents name and the code never reads."""
    sources = "".join(path.read_text() for path in (ROOT / "components/auricle").rglob("*.py"))
    named = set(re.findall(r"`(AURICLE_[A-Z_]+)`", ALL))
    return sorted(name for name in named if f'"{name}"' not in sources)
