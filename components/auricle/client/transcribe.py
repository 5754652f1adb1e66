"""`auricle transcribe`: sends a file or a microphone to a server, started if none is running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.findings import Findings, OnDamage
from auricle.audio.pcm import Int16
from auricle.client.client import Client
from auricle.client.display import Format, LiveText, TranscriptFormatter
from auricle.client.events import plain
from auricle.client.options import StreamOptions
from auricle.client.own_server import given_or_own_server
from auricle.client.report import ReportSegments, check_report, write_report
from auricle.client.sources import Microphone, file_blocks


@dataclass(frozen=True)
class TranscribeRequest:
    """The options of `auricle transcribe`; `file` None selects the microphone.

    `url` names a server, or several separated by commas; None selects the one at the default
    address, or starts one. Each segment is in one of `languages`; empty permits any. With
    `translate`, an ISO 639-1 code, the text is shown in that language. `on_damage`: whether a file
    that is damaged within is an error, or is transcribed as far as it can be decoded.
    """

    file: Path | None
    url: str | None = None
    live: bool = False
    format: Format = "txt"
    languages: tuple[str, ...] = ()
    context: str = ""
    report: Path | None = None
    translate: str | None = None
    on_damage: OnDamage = "reject"


async def transcribe(transcription: TranscribeRequest, api_key: str | None) -> bool:
    """Print the transcript, or its events as JSON; write a report if requested.

    Return whether the file is complete. Standard error has a line on each loss.

    Raises BadRequest for an unusable file, microphone or report, and AuricleError if the server
    cannot be started, rejects the session or fails.
    """
    # With JSON and subtitles, standard output has nothing else; the rest goes to standard error.
    quiet = transcription.format != "txt"
    console = Console(stderr=quiet)
    findings = Findings(keep_damaged=transcription.on_damage == "keep")
    with console.status("reading the recording"):  # nothing without a terminal
        source = await asyncio.to_thread(_source, transcription, findings)
    for warning in findings.warnings(_seconds(source) or 0.0):
        _warn(warning)
    segments = ReportSegments()
    formatter = TranscriptFormatter(transcription.translate, _warn)
    async with given_or_own_server(transcription.url, console, quiet=quiet) as server:
        client = Client(
            [one.strip() for one in server.split(",")],
            api_key=api_key,
            on_lost=_warn,
        )
        with _until_interrupted(source):
            await _follow(client, source, transcription, console, formatter, segments)
        if transcription.format in ("srt", "vtt", "tsv"):
            print(formatter.text(transcription.format), end="")
        elif transcription.format == "txt" and not (transcription.live and console.is_terminal):
            console.print(formatter.text("txt"), style="bold", highlight=False)
    if transcription.report is not None:
        name = "microphone" if transcription.file is None else transcription.file.name
        with console.status("writing the report"):
            await asyncio.to_thread(
                write_report, transcription.report, name, _samples(source), segments.segments()
            )
    return not findings.incomplete


def _warn(line: str) -> None:
    print(f"auricle: {line}", file=sys.stderr)


async def _follow(
    client: Client,
    source: Int16 | _Recorded,
    transcription: TranscribeRequest,
    console: Console,
    formatter: TranscriptFormatter,
    segments: ReportSegments,
) -> None:
    """Show a session's events, and collect them in `segments`."""
    live = transcription.live or isinstance(source, _Recorded)
    with LiveText(console, _seconds(source)) as display:
        options = StreamOptions(
            live=live,
            partials=live,
            context=transcription.context,
            on_sent=display.sent,
        )
        if len(transcription.languages) == 1:
            (options["language"],) = transcription.languages
        elif transcription.languages:
            options["languages"] = transcription.languages
        if transcription.translate is not None:
            options["translate"] = [transcription.translate]
        if transcription.report is not None:  # a report requests all annotations of the server
            features = await client.capabilities()
            options["words"], options["diarize"] = features.words, features.speakers
        async for event in client.stream(source, **options):
            segments.add(event)
            shown = formatter.add(event)
            if transcription.format == "json":
                print(json.dumps(plain(event)), flush=True)
            elif live and shown is not None:
                display.event(shown)


class _Recorded:
    """A microphone; its audio is kept for a report."""

    live = True
    sample_rate = SAMPLE_RATE

    def __init__(self, keep: bool) -> None:
        self.microphone = Microphone()
        self.kept: list[bytes] = []
        self._keep = keep

    def __iter__(self) -> Iterator[bytes]:
        for number, packet in enumerate(self.microphone):
            if number == 0:  # it works
                print("auricle: listening; Ctrl-C ends it", file=sys.stderr)
            if self._keep:
                self.kept.append(packet)
            yield packet


def _source(transcription: TranscribeRequest, findings: Findings) -> Int16 | _Recorded:
    """Return the 16 kHz mono samples of the file, or the microphone.

    Raises BadRequest if the file cannot be used, or the report not written.
    """
    if transcription.file is None:
        if transcription.report is not None:
            check_report(transcription.report, 0.0)
        return _Recorded(keep=transcription.report is not None)
    samples = np.concatenate(list(file_blocks(transcription.file, findings)))
    if transcription.report is not None:
        check_report(transcription.report, len(samples) / SAMPLE_RATE)
    return samples


def _seconds(source: Int16 | _Recorded) -> float | None:
    return None if isinstance(source, _Recorded) else len(source) / SAMPLE_RATE


def _samples(source: Int16 | _Recorded) -> Int16:
    if isinstance(source, _Recorded):
        return np.frombuffer(b"".join(source.kept), "<i2")
    return source


@contextlib.contextmanager
def _until_interrupted(source: Int16 | _Recorded) -> Iterator[None]:
    """Let Ctrl-C end the microphone's audio, so that the last text arrives; a second one ends all.

    Without this, the first one would also end the command's own server.
    """
    if not isinstance(source, _Recorded):
        yield
        return
    loop = asyncio.get_running_loop()

    def stop() -> None:
        source.microphone.stop()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
