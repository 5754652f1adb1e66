"""Audio paced in real time, and waiting while paced sessions run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16


async def paced(
    pcm: Int16, packet: int, began: float, rate: int = SAMPLE_RATE
) -> AsyncIterator[tuple[float, Int16]]:
    """Yield (due, samples) of packets of `packet` samples, each once its last sample is spoken.

    Speech began at `began` on the event loop's clock. The schedule is absolute: a late packet does
    not delay later ones, and follows at once.
    """
    now = asyncio.get_running_loop().time
    for at in range(0, len(pcm), packet):
        samples = pcm[at : at + packet]
        due = began + (at + len(samples)) / rate
        # Yield even when late, so that other sessions can run.
        await asyncio.sleep(max(0.0, due - now()))
        yield due, samples


async def undisturbed(seconds: float, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for `seconds`; raise the error of a task that fails meanwhile."""
    failed, _ = await asyncio.wait(
        {asyncio.create_task(asyncio.sleep(seconds)), *tasks},
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in failed:
        task.result()
