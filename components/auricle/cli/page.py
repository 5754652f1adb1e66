"""Writes docs/cli.md from the help of all commands: `make interfaces`."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from auricle.cli.common import EXITS, Command
from auricle.cli.main import main

PAGE = Path("docs/cli.md")
_TOP = """\
# The command line

`make interfaces` writes this page from the commands; do not edit it.

Results go to standard output, errors to standard error. Colours and progress bars appear only if
standard output is a terminal; the variable `NO_COLOR` disables colours. `--json` is for programs;
its keys do not change within a release.

Exit statuses, unless a command lists its own:

| exit status | |
|---|---|
{exits}

## Completion

`auricle completion` prints what makes bash, zsh or fish complete commands, options, graphs,
components and settings:

```
eval "$(auricle completion bash)"     # this shell; or in ~/.bashrc
```

"""


def commands() -> Iterator[tuple[str, Command]]:
    """Yield every command with its full name, such as `auricle models list`."""
    yield from _below(main, "auricle")


def cli_page() -> str:
    exits = "\n".join(f"| {status} | {means} |" for status, means in EXITS.items())
    sections = ("\n".join(_section(name, command)) for name, command in commands())
    return _TOP.format(exits=exits) + "\n".join(sections)


def _below(group: click.Group, name: str) -> Iterator[tuple[str, Command]]:
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from _below(command, f"{name} {command.name}")
        else:
            assert isinstance(command, Command)
            yield f"{name} {command.name}", command


def _section(name: str, command: Command) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## {name}", "", f"`{name} {usage}`", "")
    yield from (cleandoc(command.help or ""), "")
    if named := [p for p in command.params if isinstance(p, click.Option)]:
        yield from ("| option | |", "|---|---|")
        for option in named:
            shown, means = option.get_help_record(context) or ("", "")
            yield f"| `{shown}` | {means} |"
        yield ""
    yield from ("```", *command.examples, "```", "")
    if own := {s: m for s, m in command.exits.items() if EXITS.get(s) != m}:
        yield from ("| exit status | |", "|---|---|")
        yield from (f"| {status} | {means} |" for status, means in own.items())
        yield ""


if __name__ == "__main__":
    PAGE.write_text(cli_page())
    print(PAGE)
