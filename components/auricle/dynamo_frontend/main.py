"""Runs `python -m dynamo.frontend` and reports when it lists a model."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import httpx

from auricle.config.settings import DynamoFrontendSettings
from auricle.core.aio import first_failure_or, with_timeout
from auricle.core.errors import AuricleError
from auricle.dynamo import dynamo_environment
from auricle.process.metrics import report_status

_MODEL_SECONDS = 600.0
_POLL_SECONDS = 0.25
_STOP_SECONDS = 15.0


async def run(settings: DynamoFrontendSettings) -> None:
    """Run Dynamo's frontend until SIGTERM or SIGINT.

    Raises AuricleError if it ends by itself, and DeadlineExceeded if it lists no model within
    600 s. On stop it gets SIGTERM, and SIGKILL after 15 s.
    """
    address = f"http://{settings.host}:{settings.port}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dynamo.frontend"),
        *("--http-host", settings.host, "--http-port", str(settings.port)),
        env=os.environ | dynamo_environment(settings),
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    serving = asyncio.create_task(_announce(address, stop))
    try:
        await first_failure_or(serving, [asyncio.create_task(_ended(process))])
    finally:
        report_status("stopping")
        await _stop(process)


async def _announce(address: str, stop: asyncio.Event) -> None:
    report_status("waiting for a model")
    await with_timeout(_MODEL_SECONDS, _lists_a_model(address), "a model to be listed")
    report_status(f"listening at {address}")
    report_status("ready")
    await stop.wait()


async def _lists_a_model(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=2.0) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
                if (await client.get("/v1/models")).json()["data"]:
                    return
            await asyncio.sleep(_POLL_SECONDS)


async def _ended(process: asyncio.subprocess.Process) -> None:
    raise AuricleError(f"dynamo.frontend ended with exit code {await process.wait()}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
