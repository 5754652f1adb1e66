"""`auricle transcribe`: a file through a server, which is started if none runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from auricle.audio.decode import read_audio
from auricle.audio.mel import SAMPLE_RATE
from auricle.client.display import LiveText
from auricle.client.stream import Event, stream_file
from auricle.errors import AuricleError
from auricle.launcher.serve import serve
from auricle.launcher.supervisor import Supervisor

DEFAULT_URL = "http://127.0.0.1:8080"
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
    """Print the transcript of `file`; raises AuricleError saying what went wrong."""
    samples = await asyncio.to_thread(read_audio, file)
    # What a program reads goes to standard output, everything else beside it.
    console = Console(stderr=as_json)
    async with _server(url, console, quiet=as_json) as server:
        with LiveText(console, len(samples) / SAMPLE_RATE) as display:
            last: Event = {}
            async for event in stream_file(
                server,
                samples,
                live=live,
                language=language,
                context=context,
                api_key=api_key,
                on_sent=display.sent,
            ):
                last = event
                if as_json:
                    print(json.dumps(event), flush=True)
                elif live:
                    display.event(event)
        if not as_json and not (live and console.is_terminal):
            console.print(last.get("text", ""), style="bold", highlight=False)


@contextlib.asynccontextmanager
async def _server(url: str | None, console: Console, *, quiet: bool) -> AsyncGenerator[str, None]:
    """The given server, the one at the default address, or one of our own."""
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
    """The default graph on a free port, stopped at the end."""
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
            await running  # raises what kept it from starting
            raise AuricleError("the server was stopped before it was ready")
        yield ready.result()
    finally:
        for supervisor in supervisors:
            supervisor.stop()
        await running
