"""The `auricle` command."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TextIO

import click

from auricle import __version__
from auricle.errors import AuricleError

_FAILED = 1
_NOT_ASKED = 2
_OVERRIDABLE = {"ignore_unknown_options": True}
_api_key_file = click.option(
    "--api-key-file",
    type=click.File(),
    help="file with the key, if the server requires one, or - for standard input; the variable "
    "AURICLE_API_KEY will do too (in the command line others would see it)",
)


def _api_key(file: TextIO | None) -> str | None:
    given = os.environ.get("AURICLE_API_KEY") if file is None else file.read()
    return (given or "").strip() or None


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a command in a new event loop; print an AuricleError as one line and exit with 1."""
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
    """Run every component of GRAPH (such as graphs.e_pd:Frontend) on this machine.

    OVERRIDES are settings of the form --Component.key=value.
    """
    from rich.console import Console

    from auricle.launcher.serve import serve as run

    _run(lambda: run(graph, config, overrides, console=Console()))


@main.command(context_settings=_OVERRIDABLE)
@click.argument("name")
@click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="check configuration, checkpoint and imports instead: no device, no network",
)
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def component(name: str, config: Path | None, only_check: bool, overrides: tuple[str, ...]) -> None:
    """Run the component NAME in this process, as in a container.

    OVERRIDES are settings of the form --Component.key=value. --check prints a line for each thing
    that was checked, and exits with 1 if one failed.
    """
    from auricle.launcher.component_check import check_component

    if only_check:
        sys.exit(0 if check_component(name, config, overrides) else _FAILED)
    from auricle.launcher.component import component_settings, run_component

    try:
        run_component(name, component_settings(name, config, overrides))
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_FAILED)


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--mic", is_flag=True, help="transcribe the microphone instead, until Ctrl-C")
@click.option("--live", is_flag=True, help="send the file in real time and show partial text")
@click.option(
    "--url",
    help="server, or several separated by commas, to resume at if one goes; "
    "default: the one at http://127.0.0.1:8080, else a new one",
)
@click.option("--json", "as_json", is_flag=True, help="print every event as a line of JSON")
@click.option("--language", help="force a language instead of detecting it")
@click.option("--context", default="", help="context text, such as names that may occur")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="also write a web page with waveform, text by time and playback",
)
@_api_key_file
def transcribe(
    file: Path | None,
    mic: bool,
    live: bool,
    url: str | None,
    as_json: bool,
    language: str | None,
    context: str,
    report: Path | None,
    api_key_file: TextIO | None,
) -> None:
    """Transcribe an audio FILE (WAV, FLAC, MP3, Ogg, M4A, WebM and others), or the microphone.

    The file may have any sample rate and number of channels.

    \b
    auricle transcribe talk.mp3 --report talk.html
    auricle transcribe --mic
    """
    from auricle.client.transcribe import Wanted
    from auricle.client.transcribe import transcribe as run

    if (file is None) != mic:
        raise click.UsageError(
            "name a FILE, or give --mic" if file is None else "--mic has no FILE"
        )
    wanted = Wanted(file, url, live or mic, as_json, language, context, report)
    _run(lambda: run(wanted, _api_key(api_key_file)))


@main.command()
@click.argument("url")
@_api_key_file
@click.option("--json", "as_json", is_flag=True, help="print findings and diagnosis as JSON")
def doctor(url: str, api_key_file: TextIO | None, as_json: bool) -> None:
    """Say what is wrong with the deployment whose frontend is at URL, and what to do.

    Exits with 0 if nothing is, 1 if something is, 2 if the deployment could not be asked. Where
    keys are set it takes one with the scope operations.
    """
    from auricle.client.doctor.run import doctor as run

    try:
        well = asyncio.run(run(url, _api_key(api_key_file), as_json=as_json))
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_NOT_ASKED)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0 if well else _FAILED)


@main.command(context_settings=_OVERRIDABLE)
@click.option("-f", "--config", type=click.Path(path_type=Path), help="config file")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="profile to write")
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    multiple=True,
    help="typical speech; default: the recordings that come with the checkpoint",
)
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
def profile(
    config: Path | None, out: Path, audio: tuple[Path, ...], overrides: tuple[str, ...]
) -> None:
    """Measure the capacity of one worker of each pool on this machine, for the planner."""
    from rich.console import Console

    from auricle.profiling.run import profile as run

    _run(lambda: run(config, overrides, out, audio, Console()))


@main.command()
@click.argument("graph")
@click.option("-f", "--config", type=click.Path(path_type=Path), required=True, help="config file")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="folder for the manifests; default: deploy/k8s/NAME-OF-THE-CONFIG",
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


@main.group()
def models() -> None:
    """Look at checkpoints before a deployment tries them."""


@models.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--gpu-memory", type=float, multiple=True, help="GiB of a GPU to say what fits; may be repeated"
)
@click.option("--json", "as_json", is_flag=True, help="print what was found as JSON")
def check(path: Path, gpu_memory: tuple[float, ...], as_json: bool) -> None:
    """Check the checkpoint in the folder PATH as both pools' loaders do, and say what it needs.

    Exits with 1, and one line that says why, if it cannot be served.

    \b
    auricle models check models/demo
    auricle models check Qwen3-ASR-1.7B --gpu-memory 24 --gpu-memory 80
    """
    from auricle.checking import check_model

    try:
        check_model(path, gpu_memory, as_json=as_json)
    except AuricleError as error:
        click.echo(f"auricle: {error}", err=True)
        sys.exit(_FAILED)


@main.command()
@click.argument("name")
@click.option("--entry", is_flag=True, help="print only the entry, to append to a keys file")
@click.option("--expires", help="when it is refused from, such as 2027-01-01T00:00:00Z")
@click.option(
    "--scopes",
    default="live,recordings",
    show_default=True,
    help="what it is for: live, recordings, operations (metrics, diagnosis), separated by commas",
)
def key(name: str, entry: bool, expires: str | None, scopes: str) -> None:
    """Create an API key for the client NAME; the key is printed once and not stored.

    The key is printed on standard error, and a keys file with one entry on standard output:
    `auricle key NAME > keys.yaml`, and `auricle key --entry OTHER >> keys.yaml`.
    """
    from pydantic import ValidationError

    from auricle.frontend.doors.access.keys import key_file, new_key

    try:
        secret, made = new_key(name, expires, scopes.split(","))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        given = {"name": name, "expires": expires, "scopes": scopes}[field]
        raise click.UsageError(f"{field} {given!r}: {first['msg']}") from None
    click.echo(f"# The key, for the client: {secret}", err=True)
    click.echo(key_file(made, first=not entry), nl=False)
