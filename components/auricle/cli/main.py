"""The group of all commands."""

from __future__ import annotations

import click

from auricle import __version__
from auricle.cli.clients import bench, demo, transcribe
from auricle.cli.common import Group
from auricle.cli.completion import completion
from auricle.cli.models import models
from auricle.cli.operating import check_config, doctor, key, status
from auricle.cli.serving import component, profile, render, serve


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Streaming speech recognition with speech LLMs.

    `auricle COMMAND --help` shows examples and exit statuses.
    """


for _command in (
    *(serve, component, transcribe, demo, bench, check_config, status, doctor),
    *(models, profile, render, key, completion),
):
    main.add_command(_command)
