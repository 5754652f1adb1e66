"""Live sessions that tests disturb."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from auricle.client.stream import Event, stream_file
from auricle_testing import recordings


async def begun(urls: Sequence[str], name: str, **connection: Any) -> asyncio.Task[list[Event]]:
    """Begin to send a recording in real time; return once there is text, or the session failed.

    The task returns all events. `connection` has fields of ConnectionOptions.
    """
    has_text = asyncio.Event()

    async def spoken() -> list[Event]:
        found = []
        samples = recordings.samples(name)
        async for event in stream_file(urls, samples, live=True, **connection):
            found.append(event)
            if event["type"] == "partial":
                has_text.set()
        return found

    speaking = asyncio.create_task(spoken())
    speaking.add_done_callback(lambda _: has_text.set())
    await has_text.wait()
    return speaking
