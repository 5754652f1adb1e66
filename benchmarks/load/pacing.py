"""Packets on an absolute schedule: packet i is due when its last sample has been spoken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from auricle.audio.pcm import Int16
from benchmarks.load.record import Record
from models.training.corpus import SAMPLE_RATE

Send = Callable[[Int16], Awaitable[None]]


async def send_paced(record: Record, send: Send) -> None:
    """All packets of the session's audio, each when it is due or, if that is past, at once.

    The schedule never moves: a packet sent late does not delay the ones after it.
    """
    pcm = record.plan.pcm
    size = round(record.packet_seconds * SAMPLE_RATE)
    began = time.monotonic()
    for at in range(0, len(pcm), size):
        packet = pcm[at : at + size]
        due = began + (at + len(packet)) / SAMPLE_RATE
        # Even when late, let others run: a sender that never yields would starve them.
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        record.due_at.append(due)
        record.sent_at.append(time.monotonic())
        await send(packet)
