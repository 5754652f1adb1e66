"""Completion in bash, zsh and fish: commands, graphs, components, settings."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from auricle.cli.common import Command

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "auricle", "_AURICLE_COMPLETE"


@click.command(
    short_help="Complete the command line in a shell.",
    cls=Command,
    examples=(
        'eval "$(auricle completion bash)"',
        "auricle completion bash > ~/.local/share/bash-completion/completions/auricle",
        'auricle completion zsh > "${fpath[1]}/_auricle"',
        "auricle completion fish > ~/.config/fish/completions/auricle.fish",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete subcommands, options, graphs and settings."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
