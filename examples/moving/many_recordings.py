"""From Ray Serve: many concurrent recordings, with a retry when the server is full.

python examples/moving/many_recordings.py FILE… [--url http://127.0.0.1:8080] [--at-a-time 8]
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from auricle.client import Client, Overloaded


async def transcribe(files: list[Path], url: str, at_a_time: int) -> None:
    """Print the name and text of each recording, in the order of completion."""
    client, room = Client(url), asyncio.Semaphore(at_a_time)

    async def one(file: Path) -> str:
        async with room:
            while True:
                try:
                    return (await client.transcribe(file)).text
                except Overloaded as full:  # a queue in front of replicas would wait, too
                    await asyncio.sleep(full.retry_after_seconds)

    async def show(file: Path) -> None:
        print(f"{file.name}: {await one(file)}")

    await asyncio.gather(*map(show, files))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--at-a-time", type=int, default=8)
    asked = parser.parse_args()
    asyncio.run(transcribe(asked.files, asked.url, asked.at_a_time))


if __name__ == "__main__":
    main()
