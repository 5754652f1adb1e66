"""Where a key stands in a config file, and which are there twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml


@dataclass(frozen=True)
class Twice:
    """A key that a mapping has at two lines; YAML takes the second."""

    key: str
    first: int
    second: int


@dataclass(frozen=True)
class Places:
    """The line, from 1, of every key of the file, which is written as `Frontend.port`."""

    lines: dict[str, int]
    twice: tuple[Twice, ...]

    def line(self, key: str) -> int | None:
        """Return the line of a key, or of the nearest above it that the file has."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)


def places(text: str) -> Places:
    """Return the places of the keys of a file, which must be valid YAML."""
    lines: dict[str, int] = {}
    twice: list[Twice] = []
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, line in _keys(root, ""):
        if key in lines:
            twice.append(Twice(key, lines[key], line))
        lines[key] = line
    return Places(lines, tuple(twice))


def _keys(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        name = f"{prefix}{key.value}"
        yield name, key.start_mark.line + 1
        yield from _keys(value, f"{name}.")
