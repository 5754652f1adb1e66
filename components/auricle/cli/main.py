"""The group of all commands, and their completion by bash, zsh and fish."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from auricle import __version__
from auricle.cli.clients import bench, demo, transcribe
from auricle.cli.common import Command, Group
from auricle.cli.models import models
from auricle.cli.operating import check_config, doctor, key, status
from auricle.cli.serving import component, profile, render, serve

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "auricle", "_AURICLE_COMPLETE"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Streaming speech recognition with speech LLMs.

    `auricle COMMAND --help` shows examples and exit statuses.
    """


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


for _command in (
    *(serve, component, transcribe, demo, bench, check_config, status, doctor),
    *(models, profile, render, key, completion),
):
    main.add_command(_command)
