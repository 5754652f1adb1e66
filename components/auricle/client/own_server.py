"""The server that a command uses when none was named: the one that runs, or one of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from auricle.checkpoints.download.store import find
from auricle.core.errors import AuricleError
from auricle.launcher.config import load_config
from auricle.launcher.serve import serve
from auricle.launcher.supervisor import Supervisor

DEFAULT_GRAPH = "graphs.e_pd:Frontend"
ORDINARY_SPEECH = Path("configs/whisper.yaml")
BUNDLED_MODEL = Path("configs/demo.yaml")
_ASK_SECONDS = 2.0


@dataclass(frozen=True)
class OwnServer:
    """A graph that is ready at `url`; `running` ends when somebody stops it (Ctrl-C, SIGTERM)."""

    url: str
    running: asyncio.Task[None]


async def is_auricle(url: str) -> bool:
    """Whether an auricle frontend answers at `url`, within two seconds."""
    try:
        async with httpx.AsyncClient(timeout=_ASK_SECONDS) as client:
            answer = await client.get(f"{url}/health")
            return answer.status_code == 200 and "processors" in answer.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False


@contextlib.asynccontextmanager
async def own_server(
    console: Console,
    *,
    port: int = 0,
    quiet: bool = False,
    graph: str = DEFAULT_GRAPH,
    config: Path | None = None,
    overrides: Sequence[str] = (),
) -> AsyncGenerator[OwnServer, None]:
    """Run a graph with `overrides`, as `auricle serve` takes them, and stop it at the end; port 0
    stands for a free one.

    Without `config` its model is the one for ordinary speech if its weights are here, else the
    bundled one. Where vLLM is not installed PD workers run transformers' engine. The console is
    told of both. Raises AuricleError if it does not become ready.
    """
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    supervisors: list[Supervisor] = []
    if config is None:
        config = _config(Console(quiet=True) if quiet else console)
    if find_spec("vllm") is None:
        overrides = ("--PdWorker.engine=transformers", *overrides)
        if not quiet:
            console.print("vLLM is not installed: PD workers run transformers' engine.")
    running = asyncio.create_task(
        serve(
            graph,
            config,
            [f"--Frontend.port={port}", "--Common.log_level=WARNING", *overrides],
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
        yield OwnServer(ready.result(), running)
    finally:
        for supervisor in supervisors:
            supervisor.stop()
        await running


def _config(console: Console) -> Path:
    """Return the settings for the best model that is here; say which one would hear more."""
    name = load_config(ORDINARY_SPEECH)["Common"]["model"]
    if find(name) is not None:
        return ORDINARY_SPEECH
    console.print(
        f"{name} is not here (auricle models pull {name}): the bundled model, which knows few "
        "words, takes its place.",
        soft_wrap=True,
    )
    return BUNDLED_MODEL
