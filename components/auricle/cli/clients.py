"""Commands that transcribe audio."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypedDict, Unpack

import click

from auricle.cli.common import FAILED, Command, api_key, api_key_file, ending, run

if TYPE_CHECKING:
    from auricle.audio.findings import OnDamage
    from auricle.client.display import Format

INCOMPLETE = 3


class _Options(TypedDict):
    """The options of `auricle transcribe` that its function passes on unchanged."""

    mic: bool
    live: bool
    url: str | None
    out: Path | None
    words: bool
    speakers: bool
    max_speakers: int | None
    jobs: int
    force: bool
    translate: str | None
    context: str
    report: Path | None
    on_damage: OnDamage


class _Formats(click.ParamType[tuple["Format", ...]]):
    """One or several formats, separated by commas."""

    name = "formats"
    _known: tuple[Format, ...] = ("txt", "srt", "vtt", "tsv", "json")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Format, ...]:
        given = [name.strip() for name in str(value).split(",")]
        known = tuple(form for form in self._known if form in given)
        if len(known) != len(given):
            names = ", ".join(self._known)
            self.fail(f"{value!r} is not a list of different formats of {names}", param, ctx)
        return known


@click.command(
    short_help="Transcribe recordings or the microphone.",
    cls=Command,
    examples=(
        "auricle transcribe talk.mp3",
        "auricle transcribe talk.mp3 --live --url http://127.0.0.1:8080",
        "auricle transcribe talk.mp3 --json | jq -r 'select(.type == \"final\").text'",
        "auricle transcribe talk.mp3 --language de,es",
        "auricle transcribe talk.mp3 --translate es --format srt > talk.es.srt",
        "auricle transcribe talk.mp3 --report talk.html --translate es",
        "auricle transcribe interviews --speakers --format txt,srt,json --out transcripts",
        "auricle transcribe monday.wav 'calls/*.mp3' --words --format json",
        "auricle transcribe interviews --translate es --format srt",
        "auricle transcribe --mic",
    ),
    exits={
        INCOMPLETE: "transcribed, but a part of a file is missing, or its words, speakers or "
        "translation; see standard error"
    },
)
@click.argument("sources", metavar="[FILE | FOLDER | PATTERN]...", nargs=-1)
@click.option("--mic", is_flag=True, help="transcribe the microphone instead, until Ctrl-C")
@click.option("--live", is_flag=True, help="send the file in real time and show partial text")
@click.option(
    "--url",
    envvar="AURICLE_URL",
    help="server, or several separated by commas, to resume at if one fails; default: AURICLE_URL, "
    "the one at http://127.0.0.1:8080, or a new one",
)
@click.option(
    "--format",
    "forms",
    type=_Formats(),
    default="txt",
    show_default=True,
    help="txt, srt, vtt, tsv (start and end in ms, text) or json; with files for results several, "
    "separated by commas; json of a single FILE is every event as a line",
)
@click.option("--json", "as_json", is_flag=True, help="the same as --format json")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="folder for the results; default: next to each recording; a single FILE is printed",
)
@click.option("--words", is_flag=True, help="with times and confidence of words (json)")
@click.option("--speakers", is_flag=True, help="by speaker")
@click.option(
    "--max-speakers",
    type=click.IntRange(min=1),
    help="with --speakers, how many there are at most",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="recordings at a time; they wait while the server is full",
)
@click.option("--force", is_flag=True, help="repeat recordings whose results exist")
@click.option(
    "--translate",
    metavar="LANGUAGE",
    help="the text in another language: an ISO 639-1 code, such as es; files for results are named "
    "after it, such as talk.es.srt",
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
    sources: tuple[str, ...],
    forms: tuple[Format, ...],
    as_json: bool,
    language: str,
    api_key_file: TextIO | None,
    **options: Unpack[_Options],
) -> None:
    """Transcribe recordings (WAV, FLAC, MP3, Ogg, M4A, WebM and others), or the microphone.

    The text of a single FILE is printed. For several FILEs, a FOLDER, or a PATTERN such as
    'calls/*.mp3', each recording has files with its results. - is a recording on standard input.
    """
    if bool(sources) == options["mic"]:
        raise click.UsageError(
            "--mic has no FILE: give one of them" if sources else "name a FILE, or give --mic"
        )
    if options["max_speakers"] is not None and not options["speakers"]:
        raise click.UsageError("--max-speakers needs --speakers")
    if as_json and forms != _DEFAULT:
        raise click.UsageError(f"--json and --format {','.join(forms)}: give one of them")
    formats: tuple[Format, ...] = ("json",) if as_json else forms
    languages = tuple(name.strip() for name in language.split(",") if name.strip())
    key = api_key(api_key_file)
    with _standard_input(sources) as named:
        one_file = options["mic"] or (len(named) == 1 and not _is_several(named[0]))
        prints = one_file and options["out"] is None and len(formats) == 1
        if prints and not (options["words"] or options["speakers"]):
            _transcribe_one(named, formats[0], languages, key, options)
        else:
            _transcribe_batch(named, formats, languages, key, options, prints=prints)


_DEFAULT: tuple[Format, ...] = ("txt",)
_ONE_FILE_ONLY = ("mic", "live", "report")


def _transcribe_one(
    sources: Sequence[str],
    form: Format,
    languages: tuple[str, ...],
    key: str | None,
    options: _Options,
) -> None:
    """Print one recording, or the microphone, through a session."""
    from auricle.client.transcribe import TranscribeRequest
    from auricle.client.transcribe import transcribe as work

    request = TranscribeRequest(
        file=Path(sources[0]) if sources else None,
        url=options["url"],
        live=options["live"] or options["mic"],
        format=form,
        languages=languages,
        context=options["context"],
        report=options["report"],
        translate=options["translate"],
        on_damage=options["on_damage"],
    )
    if not run(lambda: work(request, key)):
        sys.exit(INCOMPLETE)


def _transcribe_batch(
    sources: Sequence[str],
    formats: tuple[Format, ...],
    languages: tuple[str, ...],
    key: str | None,
    options: _Options,
    *,
    prints: bool,
) -> None:
    """Write the results of recordings that the server decodes."""
    from auricle.annotation.translation.targets import is_code
    from auricle.checkpoints.languages import target_code
    from auricle.client.batch import BatchRequest, transcribe_batch
    from auricle.client.options import TranscribeOptions

    for name in _ONE_FILE_ONLY:
        if options[name]:  # type: ignore[literal-required]
            raise click.UsageError(
                f"--{name} takes one FILE and one format, without --words, --speakers and --out"
            )
    translate = options["translate"]
    if translate is not None:
        if options["words"] or options["speakers"]:
            raise click.UsageError("--translate has no --words and no --speakers: give one of them")
        if not is_code(code := target_code(translate)):
            raise click.UsageError(f"--translate {translate} is not an ISO 639-1 code, such as es")
        translate = code  # results are named after it
    given = TranscribeOptions(
        language=languages[0] if len(languages) == 1 else None,
        languages=languages if len(languages) > 1 else (),
        prompt=options["context"],
        words=options["words"],
        speakers=options["speakers"],
        max_speakers=options["max_speakers"],
        translate=translate,
        on_damage=options["on_damage"],
    )
    request = BatchRequest(
        sources,
        formats,
        options["url"],
        options["out"],
        prints=prints,
        force=options["force"],
        jobs=options["jobs"],
        options=given,
    )
    result = run(lambda: transcribe_batch(request, key))
    if result.failed:
        sys.exit(FAILED)
    if result.with_warnings:
        sys.exit(INCOMPLETE)


def _is_several(source: str) -> bool:
    """Whether a source is a folder, or a pattern rather than the name of a file."""
    path = Path(source)
    return path.is_dir() or (not path.exists() and any(sign in source for sign in "*?["))


@contextmanager
def _standard_input(sources: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the sources, where - is a file with all of standard input."""
    if "-" not in sources:
        yield sources
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stdin"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield tuple(str(file) if source == "-" else source for source in sources)


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
