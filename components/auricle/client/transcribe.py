"""`auricle transcribe`: sends a file to a server, which is started if none is running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client.client import DEFAULT_URL, Client
from auricle.client.display import LiveText
from auricle.client.events import Done, plain
from auricle.client.sources import file_blocks
from auricle.errors import AuricleError
from auricle.launcher.serve import serve
from auricle.launcher.supervisor import Supervisor

_DEFAULT_GRAPH = "graphs.e_pd:Frontend"
_DEFAULT_CONFIG = Path("configs/demo.yaml")


async def transcribe(
    file: Path,
    *,
    url: str | None,
    live: bool,
    as_json: bool,
    language: str | None,
    context: str,
    api_key: str | None,
) -> None:
    """Print the transcript of `file`, or its events with `as_json`.

    `url` names a server, or several separated by commas; None selects the server at the default
    address, or starts one. Raises BadRequest
    for an unusable file, and AuricleError if the server cannot be started, refuses or fails.
    """
    samples = await asyncio.to_thread(_samples, file)
    # With JSON, standard output has only events; everything else goes to standard error.
    console = Console(stderr=as_json)
    async with _server(url, console, quiet=as_json) as server:
        client = Client(
            [one.strip() for one in server.split(",")],
            api_key=api_key,
            on_lost=lambda line: print(f"auricle: {line}", file=sys.stderr),
        )
        text = ""
        with LiveText(console, len(samples) / SAMPLE_RATE) as display:
            async for event in client.stream(
                samples,
                live=live,
                partials=live,
                language=language,
                context=context,
                on_sent=display.sent,
            ):
                if isinstance(event, Done):
                    text = event.text
                if as_json:
                    print(json.dumps(plain(event)), flush=True)
                elif live:
                    display.event(event)
        if not as_json and not (live and console.is_terminal):
            console.print(text, style="bold", highlight=False)


def _samples(file: Path) -> Int16:
    """Return the 16 kHz mono samples of a file. Raises BadRequest if it cannot be used."""
    return np.concatenate(list(file_blocks(file)))


@contextlib.asynccontextmanager
async def _server(url: str | None, console: Console, *, quiet: bool) -> AsyncGenerator[str, None]:
    """Yield the URL of the given server, the one at the default address, or a new one."""
    if url is not None:
        yield url
    elif await _is_auricle(DEFAULT_URL):
        yield DEFAULT_URL
    else:
        async with _own_server(console, quiet=quiet) as own:
            yield own


async def _is_auricle(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=2.0) as client:
            answer = await client.get(f"{url}/health")
            return answer.status_code == 200 and "processors" in answer.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False


@contextlib.asynccontextmanager
async def _own_server(console: Console, *, quiet: bool) -> AsyncGenerator[str, None]:
    """Run the default graph on a free port and yield its URL; stop it at the end."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    supervisors: list[Supervisor] = []
    running = asyncio.create_task(
        serve(
            _DEFAULT_GRAPH,
            _DEFAULT_CONFIG,
            ["--Frontend.port=0", "--Common.log_level=WARNING"],
            console=console,
            quiet=quiet,
            on_ready=ready.set_result,
            on_supervisor=supervisors.append,
        )
    )
    try:
        waiting: set[asyncio.Future[Any]] = {running, ready}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await running  # raises the error that prevented the start
            raise AuricleError("the server was stopped before it was ready")
        yield ready.result()
    finally:
        for supervisor in supervisors:
            supervisor.stop()
        await running
