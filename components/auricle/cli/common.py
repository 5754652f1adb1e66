"""Common parts of the commands: help with examples and exit statuses, keys, errors."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from click.shell_completion import CompletionItem

from auricle.core.errors import AuricleError


def complete_component(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from auricle.config.settings import SECTIONS

    return [CompletionItem(name) for name in SECTIONS if name.startswith(incomplete)]


def complete_graph(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a graph of the folder `graphs` by file name, without importing its modules."""
    found = sorted(path.stem for path in Path("graphs").glob("[!_]*.py"))
    graphs = [f"graphs.{name}:" for name in found]
    return [CompletionItem(graph) for graph in graphs if graph.startswith(incomplete)]


def complete_override(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete `--Component.key=`; the component first."""
    from auricle.config.settings import SECTIONS, CommonSettings
    from auricle.launcher.config import COMMON
    from auricle.launcher.options import options

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


T = TypeVar("T")
FAILED = 1
USAGE_ERROR = 2
DEFAULT_URL = "http://127.0.0.1:8080"
INTERRUPTED = 130
# For commands without statuses of their own.
EXITS = {
    0: "done",
    FAILED: "failed; one line on standard error has the reason",
    USAGE_ERROR: "invalid arguments; nothing was done",
    INTERRUPTED: "interrupted by Ctrl-C",
}
OVERRIDABLE = {"ignore_unknown_options": True}


class Command(click.Command):
    """A command whose help ends with examples and exit statuses.

    `exits` are statuses that differ from `EXITS`, with their meanings.
    """

    def __init__(
        self,
        *arguments: Any,
        examples: Sequence[str] = (),
        exits: Mapping[int, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)
        self.exits = {**EXITS, **(exits or {})}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; where only the client is installed, others end with one line."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if find_spec("dynamo") is not None:
                raise
            click.echo(
                f"auricle: only the client is installed here; `auricle {self.name}` needs the "
                f"packages of a server, such as {error.name}",
                err=True,
            )
            sys.exit(FAILED)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete settings and options, as both begin with dashes."""
        found = super().shell_complete(ctx, incomplete)
        settings = [p for p in self.params if p.name == "overrides"]
        if settings and incomplete.startswith("--"):
            found += complete_override(ctx, settings[0], incomplete)
        return found

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {example}\n" for example in self.examples))
        with formatter.section("Exit status"):
            formatter.write_dl([(str(status), means) for status, means in self.exits.items()])


class Group(click.Group):
    """A group of `Command`s."""

    command_class = Command
    group_class = type


api_key_file = click.option(
    "--api-key-file",
    type=click.File(),
    help="file with the key, if the server requires one, or - for standard input; alternatively "
    "set AURICLE_API_KEY (other users can read command lines)",
)
config_file = click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")


def api_key(file: TextIO | None) -> str | None:
    """Return the key of the option or the variable."""
    given = os.environ.get("AURICLE_API_KEY") if file is None else file.read()
    return (given or "").strip() or None


@contextmanager
def ending(status: int = FAILED) -> Iterator[None]:
    """Print an AuricleError as one line and exit with `status`; with 130 after Ctrl-C."""
    try:
        yield
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command in a new event loop, within `ending`, and return its result."""
    with ending():
        return asyncio.run(work())
