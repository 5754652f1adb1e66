"""Commands for those who run a deployment: look at it, and at what it is made of."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TextIO

import click

from auricle.cli.common import (
    DEFAULT_URL,
    FAILED,
    NOT_ASKED,
    OVERRIDABLE,
    Command,
    api_key,
    api_key_file,
    ending,
)


@click.command(
    "check-config",
    short_help="Say what is wrong with a configuration.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle check-config configs/demo.yaml",
        "auricle check-config configs/demo.yaml --Frontend.port=9000",
        "auricle check-config configs/h100-0.6b.yaml --no-files --json",
    ),
    exits={
        0: "nothing is wrong",
        FAILED: "something is wrong; each mistake is a line on standard output",
        NOT_ASKED: "the file cannot be read, is no YAML or has no sections; or wrong arguments",
    },
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
@click.option("--no-files", is_flag=True, help="leave out the files that it names: of another host")
@click.option("--json", "as_json", is_flag=True, help="print the mistakes as JSON")
def check_config(file: Path, overrides: tuple[str, ...], no_files: bool, as_json: bool) -> None:
    """Say all that is wrong with the configuration FILE, without starting anything.

    OVERRIDES are settings of the form --Component.key=value, as `auricle serve` takes them.
    """
    from auricle.tools.checking.config import check_config as work

    with ending(NOT_ASKED):
        right = work(file, overrides, files=not no_files, as_json=as_json)
    sys.exit(0 if right else FAILED)


@click.command(
    short_help="Say what is wrong with a running deployment.",
    cls=Command,
    examples=(
        "auricle doctor http://127.0.0.1:8080",
        "auricle doctor https://asr.example.org --api-key-file key.txt",
        "auricle doctor http://127.0.0.1:8080 --json | jq '.findings[] | select(.wrong)'",
    ),
    exits={
        0: "nothing is wrong; there may be notices",
        FAILED: "something is wrong",
        NOT_ASKED: "the deployment could not be asked, or wrong arguments",
    },
)
@click.argument("url")
@api_key_file
@click.option("--json", "as_json", is_flag=True, help="print findings and diagnosis as JSON")
def doctor(url: str, api_key_file: TextIO | None, as_json: bool) -> None:
    """Say what is wrong with the deployment whose frontend is at URL, and what to do.

    Where keys are set it takes one with the scope operations.
    """
    from auricle.tools.doctor import doctor as work

    with ending(NOT_ASKED):
        well = asyncio.run(work(url, api_key(api_key_file), as_json=as_json))
    sys.exit(0 if well else FAILED)


@click.command(
    short_help="Say who runs in a deployment, and how busy.",
    cls=Command,
    examples=(
        "auricle status",
        "auricle status --url https://asr.example.org --api-key-file key.txt",
        "auricle status --json | jq '.pools[] | {component, processes: (.processes | length)}'",
    ),
    exits={
        0: "nothing is wrong",
        FAILED: "something is wrong; `auricle doctor` says what to do",
        NOT_ASKED: "the deployment could not be asked, or wrong arguments",
    },
)
@click.option("--url", default=DEFAULT_URL, show_default=True, help="of a frontend")
@api_key_file
@click.option("--json", "as_json", is_flag=True, help="print the pools as JSON")
def status(url: str, api_key_file: TextIO | None, as_json: bool) -> None:
    """Say which processes a deployment has, how they are, and what they have in work.

    The frontend makes a diagnosis, as for `auricle doctor`. Where keys are set it takes one with
    the scope operations.
    """
    from auricle.tools.doctor import status as work

    with ending(NOT_ASKED):
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
