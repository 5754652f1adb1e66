"""Commands that transcribe audio."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypedDict, Unpack

import click

from auricle.cli.common import Command, api_key, api_key_file, ending, run

if TYPE_CHECKING:
    from auricle.audio.findings import OnDamage
    from auricle.client.display import Format

INCOMPLETE = 3


class _Unchanged(TypedDict):
    """The options of `auricle transcribe` that are fields of its `TranscribeRequest`."""

    url: str | None
    context: str
    report: Path | None
    translate: str | None
    on_damage: OnDamage


@click.command(
    short_help="Transcribe a recording or the microphone.",
    cls=Command,
    examples=(
        "auricle transcribe talk.mp3",
        "auricle transcribe talk.mp3 --live --url http://127.0.0.1:8080",
        "auricle transcribe talk.mp3 --json | jq -r 'select(.type == \"final\").text'",
        "auricle transcribe talk.mp3 --language de,es",
        "auricle transcribe talk.mp3 --translate es --format srt > talk.es.srt",
        "auricle transcribe talk.mp3 --report talk.html --translate es",
        "auricle transcribe --mic",
    ),
    exits={INCOMPLETE: "transcribed, but a part of the file is missing; see standard error"},
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--mic", is_flag=True, help="transcribe the microphone instead, until Ctrl-C")
@click.option("--live", is_flag=True, help="send the file in real time and show partial text")
@click.option(
    "--url",
    help="server, or several separated by commas, to resume at if one fails; "
    "default: the one at http://127.0.0.1:8080, or a new one",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["txt", "srt", "vtt", "json"]),
    default="txt",
    show_default=True,
    help="text, subtitles, or every event as a line of JSON",
)
@click.option("--json", "as_json", is_flag=True, help="the same as --format json")
@click.option(
    "--translate",
    metavar="LANGUAGE",
    help="show the text in another language: an ISO 639-1 code, such as es",
)
@click.option(
    "--language",
    default="",
    help="force a language instead of detecting it, or restrict detection to several, separated "
    "by commas",
)
@click.option("--context", default="", help="context text, such as names that may occur")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="also write a web page with waveform, text by time and playback, and if available "
    "speakers, times and confidence of words, and the translation",
)
@click.option(
    "--on-damage",
    type=click.Choice(["reject", "keep"]),
    default="reject",
    show_default=True,
    help="whether a file that is damaged within is refused, or transcribed as far as possible",
)
@api_key_file
def transcribe(
    file: Path | None,
    mic: bool,
    live: bool,
    form: Format,
    as_json: bool,
    language: str,
    api_key_file: TextIO | None,
    **options: Unpack[_Unchanged],
) -> None:
    """Transcribe an audio FILE (WAV, FLAC, MP3, Ogg, M4A, WebM and others), or the microphone.

    The file may have any sample rate and number of channels.
    """
    from auricle.client.transcribe import TranscribeRequest
    from auricle.client.transcribe import transcribe as work

    if (file is None) != mic:
        raise click.UsageError(
            "name a FILE, or give --mic" if file is None else "--mic has no FILE: give one of them"
        )
    if as_json and form not in ("txt", "json"):
        raise click.UsageError(f"--json and --format {form} are two formats: give one of them")
    transcription = TranscribeRequest(
        file=file,
        live=live or mic,
        format="json" if as_json else form,
        languages=tuple(name.strip() for name in language.split(",") if name.strip()),
        **options,
    )
    if not run(lambda: work(transcription, api_key(api_key_file))):
        sys.exit(INCOMPLETE)


@click.command(
    short_help="Show a recording transcribed live, then keep serving.",
    cls=Command,
    examples=("auricle demo", "auricle demo --port 0 --once"),
)
@click.option("--port", default=8080, show_default=True, help="port of the server; 0: a free one")
@click.option("--once", is_flag=True, help="end after the transcript instead of serving")
@api_key_file
def demo(port: int, once: bool, api_key_file: TextIO | None) -> None:
    """Show a recording transcribed live by the demo graph, then serve until Ctrl-C.

    Run it in the folder of auricle's repository. It uses a server that already listens at the port.
    """
    from auricle.client.demo import demo as work

    run(lambda: work(port, api_key(api_key_file), once=once))


@click.command(
    short_help="Measure and plot this machine's capacity.",
    cls=Command,
    examples=("auricle bench", "auricle bench --url http://127.0.0.1:8080 --out build/here"),
)
@click.option("--url", help="URL of a running server; default: start one, and trace its chunks")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/two-minutes"),
    show_default=True,
    help="folder for the figures and the plot",
)
def bench(url: str | None, out: Path) -> None:
    """Open more and more live sessions for two minutes; print the capacity and plot it.

    The plot shows latency against sessions, the capacity, and the steps of a chunk. Run it in the
    folder of auricle's repository, after `make setup-dev`; `make bench` does the same.
    """
    from auricle.client.demo import become_benchmark

    with ending():
        become_benchmark(url, out)
