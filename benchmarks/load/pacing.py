"""Packets of a session, paced in real time, with the times at which they were due and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from auricle.audio.pcm import Int16
from auricle.tools.load_generation.pacing import paced
from benchmarks.load.record import Record
from models.training.corpus import SAMPLE_RATE

Send = Callable[[Int16], Awaitable[None]]


async def send_paced(record: Record, send: Send) -> None:
    """Send all packets of the session's audio, each when it is due."""
    now = asyncio.get_running_loop().time
    size = round(record.packet_seconds * SAMPLE_RATE)
    async for due, packet in paced(record.plan.pcm, size, now()):
        record.due_at.append(due)
        record.sent_at.append(now())
        await send(packet)
