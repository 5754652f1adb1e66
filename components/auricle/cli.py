"""The `auricle` command."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from auricle import __version__
from auricle.errors import AuricleError

_FAILED = 1
_OVERRIDABLE = {"ignore_unknown_options": True}


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a command; errors of ours are one clear line, not a traceback."""
    try:
        asyncio.run(work())
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_FAILED)
    except KeyboardInterrupt:
        sys.exit(130)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Streaming speech recognition with speech LLMs."""


@main.command(context_settings=_OVERRIDABLE)
@click.argument("graph")
@click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def serve(graph: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Start every component of GRAPH (such as graphs.e_pd:Frontend) on this machine.

    OVERRIDES are settings of the form --Component.key=value.
    """
    from rich.console import Console

    from auricle.launcher.serve import serve as run

    _run(lambda: run(graph, config, overrides, console=Console()))


@main.command(context_settings=_OVERRIDABLE)
@click.argument("name")
@click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def component(name: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Run one component in this process, as a container does."""
    from auricle.launcher.component import run_component
    from auricle.launcher.config import load_config, settings_for
    from auricle.settings import SECTIONS

    try:
        if name not in SECTIONS:
            raise click.UsageError(f"unknown component {name!r}; known: {', '.join(SECTIONS)}")
        sections = load_config(config, overrides)
        if (namespace := os.environ.get("DYN_NAMESPACE")) is not None:
            # Dynamo's operator gives every deployment one of its own.
            sections.setdefault("Common", {}).setdefault("namespace", namespace)
        settings = settings_for(name, sections, str(config or "the command line"))
        run_component(name, settings)
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_FAILED)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="pace the file in real time and show text as it comes")
@click.option("--url", help="server; without one the default graph is started")
@click.option("--json", "as_json", is_flag=True, help="print every event as a line of JSON")
@click.option("--language", help="force a language instead of detecting it")
@click.option("--context", default="", help="context text, such as names that may occur")
@click.option("--api-key", envvar="AURICLE_API_KEY", help="where the server asks for one")
def transcribe(
    file: Path,
    live: bool,
    url: str | None,
    as_json: bool,
    language: str | None,
    context: str,
    api_key: str | None,
) -> None:
    """Transcribe an audio FILE (WAV, FLAC, MP3 or Ogg; any rate, any channel count)."""
    from auricle.client.transcribe import transcribe as run

    _run(
        lambda: run(
            file,
            url=url,
            live=live,
            as_json=as_json,
            language=language,
            context=context,
            api_key=api_key,
        )
    )


@main.command(context_settings=_OVERRIDABLE)
@click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="profile to write")
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    multiple=True,
    help="typical speech; by default the recordings the checkpoint brings",
)
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def profile(
    config: Path | None, out: Path, audio: tuple[Path, ...], overrides: tuple[str, ...]
) -> None:
    """Measure how much one worker of each pool carries on this machine, for the planner."""
    from rich.console import Console

    from auricle.profiling.run import profile as run

    _run(lambda: run(config, overrides, out, audio, Console()))


@main.command()
@click.argument("graph")
@click.option("-f", "--config", type=click.Path(path_type=Path), required=True, help="config file")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="folder for the manifests; by default deploy/k8s/NAME-OF-THE-CONFIG",
)
def render(graph: str, config: Path, out: Path | None) -> None:
    """Write Kubernetes manifests for GRAPH (such as graphs.e_pd:Frontend)."""
    from auricle.rendering.write import render as run

    try:
        for path in run(graph, config, out or Path("deploy/k8s") / config.stem):
            click.echo(path)
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_FAILED)


@main.command()
@click.argument("name")
def key(name: str) -> None:
    """Make an API key for the client NAME; the key is shown once and kept nowhere."""
    import yaml
    from pydantic import ValidationError

    from auricle.frontend.access.keys import new_key

    try:
        secret, entry = new_key(name)
    except ValidationError as error:
        raise click.UsageError(f"name {name!r}: {error.errors()[0]['msg']}") from None
    click.echo(f"# The key, for the client: {secret}", err=True)
    click.echo("# For Frontend.api_keys_file, below `keys:`", err=True)
    click.echo(yaml.safe_dump([entry.model_dump(exclude_defaults=True)]), nl=False)
