"""Many one-hour uploads in flight until told to stop, from a process of low priority.

    python -m benchmarks.frontdoor.uploads URL FILE COUNT

Prints `sent` when the bodies of all uploads have been sent. Cancels all on SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

_BLOCK = 1 << 18


async def main(url: str, audio: bytes, count: int) -> None:
    sent = 0
    all_sent = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\ndemo\r\n'
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="hour.ogg"\r\n\r\n'
        for at in range(0, len(audio), _BLOCK):
            yield audio[at : at + _BLOCK]
        yield b"\r\n--x--\r\n"
        sent += 1
        if sent == count:
            all_sent.set()

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:
        headers = {"content-type": "multipart/form-data; boundary=x"}
        requests = [
            asyncio.create_task(client.post(url, content=body(), headers=headers))
            for _ in range(count)
        ]
        announced = asyncio.create_task(_announce(all_sent))
        await stop.wait()
        early = [task for task in requests if task.done()]
        for task in (*requests, announced):
            task.cancel()
        await asyncio.gather(*requests, announced, return_exceptions=True)
        print(f"ended {len(early)}", flush=True)
        for task in early:
            print(task.result().status_code if not task.exception() else repr(task.exception()))


async def _announce(event: asyncio.Event) -> None:
    await event.wait()
    print("sent", flush=True)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes(), int(sys.argv[3])))
