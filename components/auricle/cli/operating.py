"""Commands for operators: configuration, diagnosis, status, keys."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TextIO

import click

from auricle.cli.common import (
    DEFAULT_URL,
    FAILED,
    OVERRIDABLE,
    USAGE_ERROR,
    Command,
    api_key,
    api_key_file,
    ending,
)


@click.command(
    "check-config",
    short_help="Check a configuration.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle check-config configs/demo.yaml",
        "auricle check-config configs/demo.yaml --Frontend.port=9000",
        "auricle check-config configs/h100-0.6b.yaml --no-files --json",
    ),
    exits={
        0: "nothing is wrong",
        FAILED: "something is wrong; standard output has a line for each mistake",
        USAGE_ERROR: "the file is unreadable, not YAML or has no sections; or invalid arguments",
    },
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--no-files", is_flag=True, help="do not check the files that it names, for use on another host"
)
@click.option("--json", "as_json", is_flag=True, help="print the mistakes as JSON")
def check_config(file: Path, overrides: tuple[str, ...], no_files: bool, as_json: bool) -> None:
    """Report all mistakes of the configuration FILE, without starting anything.

    OVERRIDES are settings of the form --Component.key=value, as for `auricle serve`.
    """
    from auricle.tools.checking.config import check_config as work

    with ending(USAGE_ERROR):
        right = work(file, overrides, files=not no_files, as_json=as_json)
    sys.exit(0 if right else FAILED)


@click.command(
    short_help="Diagnose a running deployment.",
    cls=Command,
    examples=(
        "auricle doctor http://127.0.0.1:8080",
        "auricle doctor https://asr.example.org --api-key-file key.txt",
        "auricle doctor http://127.0.0.1:8080 --json | jq '.findings[] | select(.wrong)'",
    ),
    exits={
        0: "nothing is wrong; there may be notices",
        FAILED: "something is wrong",
        USAGE_ERROR: "the deployment cannot be examined, or invalid arguments",
    },
)
@click.argument("url")
@api_key_file
@click.option("--json", "as_json", is_flag=True, help="print findings and diagnosis as JSON")
def doctor(url: str, api_key_file: TextIO | None, as_json: bool) -> None:
    """Report problems of the deployment whose frontend is at URL, and their remedies.

    If keys are configured, it takes one with the scope operations.
    """
    from auricle.tools.doctor import doctor as work

    with ending(USAGE_ERROR):
        well = asyncio.run(work(url, api_key(api_key_file), as_json=as_json))
    sys.exit(0 if well else FAILED)


@click.command(
    short_help="Show the processes of a deployment and their load.",
    cls=Command,
    examples=(
        "auricle status",
        "auricle status --url https://asr.example.org --api-key-file key.txt",
        "auricle status --json | jq '.pools[] | {component, processes: (.processes | length)}'",
    ),
    exits={
        0: "nothing is wrong",
        FAILED: "something is wrong; `auricle doctor` has the remedy",
        USAGE_ERROR: "the deployment cannot be examined, or invalid arguments",
    },
)
@click.option("--url", default=DEFAULT_URL, show_default=True, help="URL of a frontend")
@api_key_file
@click.option("--json", "as_json", is_flag=True, help="print the pools as JSON")
def status(url: str, api_key_file: TextIO | None, as_json: bool) -> None:
    """Show the processes of a deployment, their state and their load.

    The frontend makes a diagnosis, as for `auricle doctor`. If keys are configured, it takes one
    with the scope operations.
    """
    from auricle.tools.doctor import status as work

    with ending(USAGE_ERROR):
        well = asyncio.run(work(url, api_key(api_key_file), as_json=as_json))
    sys.exit(0 if well else FAILED)


@click.command(
    short_help="Create an API key.",
    cls=Command,
    examples=(
        "auricle key acme > keys.yaml",
        "auricle key --entry other >> keys.yaml",
        "auricle key grafana --scopes operations --expires 2027-01-01T00:00:00Z > keys.yaml",
    ),
)
@click.argument("name")
@click.option("--entry", is_flag=True, help="print only the entry, to append it to a keys file")
@click.option("--expires", help="time of expiry, such as 2027-01-01T00:00:00Z")
@click.option(
    "--scopes",
    default="live,recordings",
    show_default=True,
    help="permissions: live, recordings, operations (metrics, diagnosis), separated by commas",
)
def key(name: str, entry: bool, expires: str | None, scopes: str) -> None:
    """Create an API key for the client NAME; the key is printed once and not stored.

    The key is printed on standard error, and a keys file with one entry on standard output.
    """
    from pydantic import ValidationError

    from auricle.frontend.transport.access.keys import key_file, new_key

    try:
        secret, made = new_key(name, expires, scopes.split(","))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        given = {"name": name, "expires": expires, "scopes": scopes}[field]
        raise click.UsageError(f"{field} {given!r}: {first['msg']}") from None
    click.echo(f"# The key, for the client: {secret}", err=True)
    click.echo(key_file(made, first=not entry), nl=False)
