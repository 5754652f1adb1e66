"""The server of a command without `--url`: a running one, or a new one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from auricle.checkpoints.download.store import find
from auricle.client.client import DEFAULT_URL
from auricle.client.errors import ServerUnreachable
from auricle.core.errors import AuricleError

if TYPE_CHECKING:
    from auricle.launcher.supervisor import Supervisor

DEFAULT_GRAPH = "graphs.e_pd:Frontend"
ORDINARY_SPEECH = Path("configs/whisper.yaml")
BUNDLED_MODEL = Path("configs/demo.yaml")
_ASK_SECONDS = 2.0


@dataclass(frozen=True)
class OwnServer:
    """A graph that is ready at `url`; `running` ends when it is stopped (Ctrl-C, SIGTERM)."""

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
    """Run a graph with `overrides`, as for `auricle serve`, and stop it at the end.

    Port 0 selects a free one. Without `config` the model is the one for ordinary speech if it was
    pulled, otherwise the bundled one. If the engine of the configuration is not installed, PD
    workers run another one. The console shows both choices. Raises AuricleError if it does not
    become ready.
    """
    from auricle.launcher.serve import serve

    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    supervisors: list[Supervisor] = []
    if config is None:
        config = _config(Console(quiet=True) if quiet else console)
    configured, engine = _engines(config)
    if engine != configured:
        overrides = (f"--PdWorker.engine={engine}", *overrides)
        if not quiet:
            console.print(f"{configured} is not installed: PD workers run {engine} instead.")
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


def _engines(config: Path) -> tuple[str, str]:
    """Return the engine of a configuration, and the one to run: the best that is installed."""
    from auricle.launcher.config import load_config

    configured = load_config(config).get("PdWorker", {}).get("engine", "vllm")
    installed = (one for one in (configured, "vllm") if find_spec(one) is not None)
    return configured, next(installed, "transformers")


def _config(console: Console) -> Path:
    """Return the configuration of the best pulled model; print a hint if it is the bundled one."""
    from auricle.launcher.config import load_config

    name = load_config(ORDINARY_SPEECH)["Common"]["model"]
    if find(name) is not None:
        return ORDINARY_SPEECH
    console.print(
        f"{name} is not here (auricle models pull {name}): using the bundled model, which has a "
        "small vocabulary.",
        soft_wrap=True,
    )
    return BUNDLED_MODEL


@contextlib.asynccontextmanager
async def given_or_own_server(
    url: str | None, console: Console, *, quiet: bool
) -> AsyncGenerator[str, None]:
    """Yield the URL of the given server, the one at the default address, or a new one.

    Raises ServerUnreachable where only the client is installed and no server is given or running.
    """
    if url is not None:
        yield url
    elif await is_auricle(DEFAULT_URL):
        yield DEFAULT_URL
    elif find_spec("dynamo") is None:
        raise ServerUnreachable(
            f"no auricle server at {DEFAULT_URL}, and only the client is installed here; name a "
            "server with --url or AURICLE_URL"
        )
    else:
        async with own_server(console, quiet=quiet) as own:
            yield own.url
