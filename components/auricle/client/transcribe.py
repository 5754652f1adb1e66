"""`auricle transcribe`: sends a file or a microphone to a server, started if none is running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client.client import DEFAULT_URL, Client
from auricle.client.display import Format, LiveText, Shown
from auricle.client.events import plain
from auricle.client.options import StreamOptions
from auricle.client.own_server import is_auricle, own_server
from auricle.client.report import ToldSegments, check_report, write_report
from auricle.client.sources import Microphone, file_blocks


@dataclass(frozen=True)
class Wanted:
    """What `auricle transcribe` is asked for; `file` None stands for the microphone.

    `url` names a server, or several separated by commas; None selects the one at the default
    address, or starts one. Of several `languages` each segment is in one; none stands for any. With
    `translate`, an ISO 639-1 code, the text is told in that language.
    """

    file: Path | None
    url: str | None = None
    live: bool = False
    format: Format = "txt"
    languages: tuple[str, ...] = ()
    context: str = ""
    report: Path | None = None
    translate: str | None = None


async def transcribe(wanted: Wanted, api_key: str | None) -> None:
    """Print the transcript, or its events as JSON; write a report if one is wanted.

    Raises BadRequest for an unusable file, microphone or report, and AuricleError if the server
    cannot be started, refuses or fails.
    """
    # Of JSON and subtitles, standard output has nothing else; the rest goes to standard error.
    quiet = wanted.format != "txt"
    console = Console(stderr=quiet)
    with console.status("reading the recording"):  # nothing without a terminal
        source = await asyncio.to_thread(_source, wanted)
    told = ToldSegments()
    shown = Shown(wanted.translate, _warn)
    async with _server(wanted.url, console, quiet=quiet) as server:
        client = Client(
            [one.strip() for one in server.split(",")],
            api_key=api_key,
            on_lost=_warn,
        )
        with _until_interrupted(source):
            await _follow(client, source, wanted, console, shown, told)
        if wanted.format in ("srt", "vtt"):
            print(shown.text(wanted.format), end="")
        elif wanted.format == "txt" and not (wanted.live and console.is_terminal):
            console.print(shown.text("txt"), style="bold", highlight=False)
    if wanted.report is not None:
        name = "microphone" if wanted.file is None else wanted.file.name
        with console.status("writing the report"):
            segments = told.segments()
            await asyncio.to_thread(write_report, wanted.report, name, _heard(source), segments)


def _warn(line: str) -> None:
    print(f"auricle: {line}", file=sys.stderr)


async def _follow(
    client: Client,
    source: Int16 | _Spoken,
    wanted: Wanted,
    console: Console,
    shown: Shown,
    told: ToldSegments,
) -> None:
    """Show a session's events; `told` gets them, too."""
    live = wanted.live or isinstance(source, _Spoken)
    seconds = None if isinstance(source, _Spoken) else len(source) / SAMPLE_RATE
    with LiveText(console, seconds) as display:
        options = StreamOptions(
            live=live,
            partials=live,
            context=wanted.context,
            on_sent=display.sent,
        )
        if len(wanted.languages) == 1:
            (options["language"],) = wanted.languages
        elif wanted.languages:
            options["languages"] = wanted.languages
        if wanted.translate is not None:
            options["translate"] = [wanted.translate]
        if wanted.report is not None:  # it has all that the server can tell
            able = await client.capabilities()
            options["words"], options["diarize"] = able.words, able.speakers
        async for event in client.stream(source, **options):
            told.heard(event)
            now = shown.heard(event)
            if wanted.format == "json":
                print(json.dumps(plain(event)), flush=True)
            elif live and now is not None:
                display.event(now)


class _Spoken:
    """A microphone; what it hears is kept if a report is wanted."""

    live = True
    sample_rate = SAMPLE_RATE

    def __init__(self, keep: bool) -> None:
        self.microphone = Microphone()
        self.kept: list[bytes] = []
        self._keep = keep

    def __iter__(self) -> Iterator[bytes]:
        for packet in self.microphone:
            if self._keep:
                self.kept.append(packet)
            yield packet


def _source(wanted: Wanted) -> Int16 | _Spoken:
    """Return the 16 kHz mono samples of the file, or the microphone.

    Raises BadRequest if the file cannot be used, or the report not written.
    """
    if wanted.file is None:
        if wanted.report is not None:
            check_report(wanted.report, 0.0)
        return _Spoken(keep=wanted.report is not None)
    samples = np.concatenate(list(file_blocks(wanted.file)))
    if wanted.report is not None:
        check_report(wanted.report, len(samples) / SAMPLE_RATE)
    return samples


def _heard(source: Int16 | _Spoken) -> Int16:
    if isinstance(source, _Spoken):
        return np.frombuffer(b"".join(source.kept), "<i2")
    return source


@contextlib.contextmanager
def _until_interrupted(source: Int16 | _Spoken) -> Iterator[None]:
    """Let Ctrl-C end what the microphone hears, so that its last text comes; a second one ends all.

    A server of our own would end with the first one.
    """
    if not isinstance(source, _Spoken):
        yield
        return
    loop = asyncio.get_running_loop()

    def stop() -> None:
        source.microphone.stop()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop)
    print("auricle: listening; Ctrl-C ends it", file=sys.stderr)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextlib.asynccontextmanager
async def _server(url: str | None, console: Console, *, quiet: bool) -> AsyncGenerator[str, None]:
    """Yield the URL of the given server, the one at the default address, or a new one."""
    if url is not None:
        yield url
    elif await is_auricle(DEFAULT_URL):
        yield DEFAULT_URL
    else:
        async with own_server(console, quiet=quiet) as own:
            yield own.url
