"""Names in the documents exist in the code, and names that users meet are in the documents."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from typing import Any, get_args

import click
import pytest
from pydantic import BaseModel

from auricle import errors
from auricle.cli import main
from auricle.frontend.stream import protocol
from auricle.kubernetes_settings import KubernetesSettings
from auricle.settings import SECTIONS, CommonSettings
from tests.server import ROOT
from tests.unit.test_dashboard import exported

pytestmark = pytest.mark.unit

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
# Begins like a metric: the stream of the transcript bus.
NO_METRICS = {"auricle_transcripts"}
# Between processes of a deployment, or in an operator's terminal; no client is told them.
NOT_FOR_CLIENTS = {"checkpoint", "settings", "process_failed", "features_missing"}


def code(text: str) -> list[str]:
    """Everything in code: each line of a block, and each span, on one line."""
    found: list[str] = []
    for number, part in enumerate(re.split(r"^[ \t]*```.*$", text, flags=re.MULTILINE)):
        spans = re.findall(r"`([^`]+)`", part)
        found += part.splitlines() if number % 2 else [" ".join(s.split()) for s in spans]
    return found


@cache
def all_code() -> str:
    return "\n".join(line for text in PAGES.values() for line in code(text))


# ── metrics ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_named_exists(page: str) -> None:
    named = set(re.findall(r"\bauricle_[a-z]\w+", PAGES[page]))
    assert named - NO_METRICS <= exported().keys()


# ── settings ────────────────────────────────────────────────────────────────


def keys_of(section: type[BaseModel]) -> set[str]:
    """`key`, and `key.inner` of those that have settings of their own."""
    found = set()
    for key, field in section.model_fields.items():
        found.add(key)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {f"{key}.{inner}" for inner in kind.model_fields}
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_named_exists(page: str) -> None:
    sections = "|".join(SETTINGS)
    for section, key in re.findall(
        rf"(?<!py:)\b({sections})\.([a-z]\w*(?:\.[a-z]\w*)?)", "\n".join(code(PAGES[page]))
    ):
        assert key in keys_of(SETTINGS[section]), f"{section}.{key}"


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (section, key)
        for section, kind in SETTINGS.items()
        for key in kind.model_fields
        if section in ("Common", "Kubernetes") or key not in CommonSettings.model_fields
    ],
)
def test_every_setting_is_in_a_document(section: str, key: str) -> None:
    assert re.search(rf"\b{key}\b", all_code()), f"no document names {section}.{key}"


# ── commands and their options ──────────────────────────────────────────────


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


COMMANDS = commands(main)
GROUPS = {name for name, command in main.commands.items() if isinstance(command, click.Group)}


def options(command: click.Command) -> list[list[str]]:
    """The names of each option, such as `-f` and `--config`."""
    found = [option.opts for option in command.params if isinstance(option, click.Option)]
    return [*found, ["--help"]]


def typed(text: str) -> list[str]:
    """What follows `auricle` in each command of a text."""
    found = []
    for line in code(text):
        for part in re.split(r"\s(?:&&|\||>>?)\s|#", line.removeprefix("$ ")):
            words = part.strip().removeprefix("python -m ")
            if re.match(r"auricle( |$)", words):
                found.append(words.removeprefix("auricle").strip())
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_named_exists(page: str) -> None:
    for line in typed(PAGES[page]):
        words = line.split()
        if not words or words[0].startswith("-"):
            continue
        name = " ".join(words[: 2 if words[0] in GROUPS else 1])
        if name in GROUPS:
            continue
        assert name in COMMANDS, line
        # Settings are options of those commands that take them.
        named = {w.partition("=")[0] for w in words if re.match(r"--[a-z]", w)}
        assert named <= {one for names in options(COMMANDS[name]) for one in names}, line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_a_document(name: str) -> None:
    assert any(line.split()[: len(name.split())] == name.split() for line in typed(ALL)), name
    for names in options(COMMANDS[name])[:-1]:
        assert re.search(rf"(?<![\w-])({'|'.join(names)})\b", all_code()), f"auricle {name} {names}"


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_and_module_named_exists(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in code(PAGES[page]):
        for words in re.findall(r"(?:^|\$ |&& )make ([a-z][\w-]*)", line):
            assert words in targets, line
        for module in re.findall(r"python -m ((?:benchmarks|models|auricle|tests)[\w.]*)", line):
            assert importlib.util.find_spec(module), line


# ── messages and error codes ────────────────────────────────────────────────

LIVE = PAGES["docs/websocket.md"]


def tags() -> set[str]:
    kinds: list[Any] = [protocol.Start, protocol.End, *get_args(protocol.Reply)]
    return {str(kind.__struct_config__.tag) for kind in kinds}


def test_every_message_of_the_live_protocol_is_described_and_exists() -> None:
    assert {"start", "end", "partial", "final"} <= tags()
    assert not {tag for tag in tags() if f"`{tag}`" not in LIVE and f'"type": "{tag}"' not in LIVE}
    assert set(re.findall(r'\{"type": "(\w+)"', LIVE)) <= tags()


def all_errors() -> set[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {kind.code for kind in kinds if issubclass(kind, errors.AuricleError)}


def test_every_error_that_clients_are_told_is_described_and_exists() -> None:
    table = LIVE.partition("## Error codes")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == all_errors() - NOT_FOR_CLIENTS


# ── files and variables ─────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_repository_named_exists(page: str) -> None:
    roots = (ROOT, ROOT / "components/auricle", ROOT / "deploy/k8s/h100-0.6b", ROOT / "benchmarks")
    for span in re.findall(r"`([\w./-]+)`", PAGES[page]):
        if re.fullmatch(
            r"(components|configs|deploy|docs|examples|graphs|models|protos|tests)/[\w./-]+\w", span
        ) or re.fullmatch(r"[a-z_]+/[\w/]+\.py", span):
            assert any((root / span).exists() for root in roots), span


def test_every_variable_of_ours_that_is_named_is_read() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "components/auricle").rglob("*.py"))
    for name in set(re.findall(r"`(AURICLE_[A-Z_]+)`", ALL)):
        assert f'"{name}"' in sources, name
