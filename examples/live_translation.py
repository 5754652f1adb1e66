"""Print a recording in English and Spanish, word by word as the server commits it.

    python -m examples.live_translation [RECORDING] [--url URL]

Without `--url` it starts the demo graph with a translate pool and stops it at the end. The server
never revises committed text, so the example prints it immediately.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from auricle.client import Client, Final, Partial, Translation
from auricle.client.own_server import BUNDLED_MODEL, own_server
from auricle.client.sources import file_blocks

GRAPH = "graphs.e_pd_translate:Frontend"
MODEL = Path("models/demo-translate")
RECORDING = Path("models/demo/recordings/kitchen.flac")
LANGUAGE = "es"


class Printed:
    """Prints the new words of append-only texts."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._known: dict[tuple[str, int], str] = {}

    def committed(self, language: str, segment: int, text: str) -> None:
        """Print the words that were not committed before."""
        before = self._known.get((language, segment), "")
        self._known[language, segment] = text
        if new := text[len(before) :].strip():
            print(f"{time.monotonic() - self._began:5.1f} s  {language}  {new}", flush=True)


async def follow(url: str, recording: Path) -> None:
    """Stream the recording in real time, and print both texts."""
    samples = np.concatenate(await asyncio.to_thread(lambda: list(file_blocks(recording))))
    printed = Printed()
    async for event in Client(url).stream(samples, live=True, translate=(LANGUAGE,)):
        match event:
            case Partial():
                printed.committed("en", event.segment, event.committed)
            case Final():
                printed.committed("en", event.segment, event.text)
            case Translation():
                printed.committed(event.language, event.segment, event.committed)
                if event.missing:
                    print(f"segment {event.segment} is not translated: {event.missing}")
            case _:
                pass


async def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recording", type=Path, nargs="?", default=RECORDING)
    parser.add_argument("--url", help="of a server with a translate pool that runs")
    arguments = parser.parse_args()
    if arguments.url:
        await follow(arguments.url, arguments.recording)
        return
    options = (f"--Common.translate_model={MODEL}",)
    console = Console(highlight=False)
    async with own_server(console, graph=GRAPH, config=BUNDLED_MODEL, overrides=options) as server:
        await follow(server.url, arguments.recording)


if __name__ == "__main__":
    asyncio.run(main())
