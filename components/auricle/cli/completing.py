"""What a shell completes behind the commands: graphs, components and settings."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def complete_component(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a component."""
    from auricle.settings import SECTIONS

    return [CompletionItem(name) for name in SECTIONS if name.startswith(incomplete)]


def complete_graph(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a graph of the folder `graphs`, as its name suggests: modules are not imported."""
    found = sorted(path.stem for path in Path("graphs").glob("[!_]*.py"))
    graphs = [f"graphs.{name}:" for name in found]
    return [CompletionItem(graph) for graph in graphs if graph.startswith(incomplete)]


def complete_override(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete `--Component.key=`; the component first."""
    from auricle.launcher.config import COMMON
    from auricle.launcher.options import options
    from auricle.settings import SECTIONS, CommonSettings

    sections: dict[str, type[CommonSettings]] = {COMMON: CommonSettings, **SECTIONS}
    section, dot, key = incomplete.removeprefix("--").partition(".")
    if not dot:
        return [CompletionItem(f"--{name}.") for name in sections if name.startswith(section)]
    known = options(sections[section]) if section in sections else {}
    return [
        CompletionItem(f"--{section}.{name}=", help=option.description)
        for name, option in known.items()
        if name.startswith(key)
    ]
