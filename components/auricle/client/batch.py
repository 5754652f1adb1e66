"""`auricle transcribe` for many recordings: finds them, and writes a file for each format."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from auricle.client.client import Client
from auricle.client.display import Format
from auricle.client.options import TranscribeOptions
from auricle.client.own_server import given_or_own_server
from auricle.client.recordings import Segment, SpeakerText, Transcript
from auricle.core.errors import AuricleError, BadRequest
from auricle.transcript.subtitles import Cue, as_srt, as_tsv, as_vtt

# Of files in a folder; files that are named themselves may have any name.
# fmt: off
SUFFIXES = frozenset((
    ".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".mov", ".webm", ".mkv",
    ".mka", ".aac", ".aif", ".aiff", ".amr", ".wma", ".avi", ".mpg", ".mpeg", ".au", ".caf", ".w64",
    ".ts",
))
# fmt: on


@dataclass(frozen=True)
class BatchRequest:
    """Recordings of `auricle transcribe`: `sources` are files, folders and glob patterns.

    Each recording has a file for each of `formats`, in `out` or next to it; `out` None and
    `prints` print the only recording instead. Recordings with newer results are skipped, unless
    `force` is set. `jobs` are transcribed at a time.
    """

    sources: Sequence[str]
    formats: Sequence[Format]
    url: str | None = None
    out: Path | None = None
    prints: bool = False
    force: bool = False
    jobs: int = 4
    options: TranscribeOptions = field(default_factory=TranscribeOptions)


@dataclass
class BatchResult:
    """The numbers of recordings, and their seconds of audio."""

    transcribed: int = 0
    failed: int = 0
    skipped: int = 0
    with_warnings: int = 0
    seconds: float = 0.0


async def transcribe_batch(request: BatchRequest, api_key: str | None) -> BatchResult:
    """Transcribe the recordings; standard error has a line for each, and a summary.

    Raises BadRequest if a source does not exist, and AuricleError if no server can be used.
    """
    found = find_recordings(request.sources)
    outputs = output_paths(found, request.out, request.formats, request.options.get("translate"))
    repeats = request.force or request.prints
    left = [path for path in outputs if repeats or not _is_done(path, outputs[path])]
    result = BatchResult(skipped=len(outputs) - len(left))
    began = time.monotonic()
    console = Console(stderr=True)
    if left:
        async with given_or_own_server(request.url, console, quiet=True) as url:
            client = Client([one.strip() for one in url.split(",")], api_key=api_key)
            outcomes = client.transcribe_many(left, jobs=request.jobs, **request.options)
            async with aclosing(outcomes):
                with _progress(console, len(left)) as done:
                    async for path, outcome in outcomes:
                        done(path.name)
                        await asyncio.to_thread(
                            _take, path, outcome, outputs[path], request, result
                        )
    if not request.prints:
        _summarize(result, time.monotonic() - began)
    return result


def find_recordings(sources: Iterable[str]) -> dict[Path, Path]:
    """Return each recording, with its path below the folder in which it was found.

    Folders are searched to any depth, for the suffixes of audio files. Raises BadRequest if a
    source has no recording.
    """
    found: dict[Path, Path] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
            new = {one: one.relative_to(path) for one in inside if one.is_file()}
            missing = f"no recording is in the folder {source}"
        elif path.exists():
            new = {path: Path(path.name)}
            missing = ""
        else:
            root = Path(path.anchor)  # only relative patterns can be searched for
            matches = sorted(root.glob(str(path.relative_to(root))))
            new = {match: Path(match.name) for match in matches if match.is_file()}
            missing = f"no such audio file: {source}"
        if not new:
            raise BadRequest(missing)
        found |= new
    return found


def output_paths(
    recordings: dict[Path, Path],
    out: Path | None,
    formats: Sequence[Format],
    language: str | None = None,
) -> dict[Path, dict[Format, Path]]:
    """Return where each recording's results are written: in `out`, or next to the recording.

    Results are named after the recording, without its suffix if no other has the same name, and
    after the `language` of a translation.
    """
    suffix = "" if language is None else f".{language}"
    bases = {path: path if out is None else out / below for path, below in recordings.items()}
    shared = Counter(base.with_suffix("") for base in bases.values())
    outputs: dict[Path, dict[Format, Path]] = {}
    for path, base in bases.items():
        name = base.name if shared[base.with_suffix("")] > 1 else base.stem
        outputs[path] = {form: base.with_name(f"{name}{suffix}.{form}") for form in formats}
    return outputs


def _is_done(recording: Path, results: dict[Format, Path]) -> bool:
    """Whether all results exist and are not older than the recording."""
    try:
        changed = recording.stat().st_mtime
        return all(result.stat().st_mtime >= changed for result in results.values())
    except OSError:
        return False


def rendered(transcript: Transcript, form: Format) -> str:
    """Return a transcript in a format. With speakers, each of their turns is a line or a cue."""
    if form == "json":
        told = msgspec.to_builtins(transcript)
        return json.dumps(told, ensure_ascii=False, indent=1) + "\n"
    cues = list(_cues(transcript))
    if form == "txt":
        lines = [cue.text for cue in cues] if transcript.speakers else [transcript.text]
        return "\n".join(lines) + "\n"
    return {"srt": as_srt, "vtt": as_vtt, "tsv": as_tsv}[form](cues)


def _cues(transcript: Transcript) -> Iterator[Cue]:
    if not transcript.speakers:
        for segment in transcript.segments:
            yield _cue(segment, segment.text)
    for turn in transcript.speakers:
        yield _cue(turn, f"{turn.speaker}: {turn.text}")


def _cue(part: Segment | SpeakerText, text: str) -> Cue:
    return Cue(round(part.start * 1000), round(part.end * 1000), text)


def _take(
    recording: Path,
    outcome: Transcript | AuricleError,
    results: dict[Format, Path],
    request: BatchRequest,
    result: BatchResult,
) -> None:
    """Write or print a recording's results, and count it."""
    if isinstance(outcome, AuricleError):
        result.failed += 1
        _say(f"{recording}: {outcome}")
        return
    for warning in outcome.warnings:
        _say(f"{recording}: {warning}")
    if request.prints:
        print(rendered(outcome, request.formats[0]), end="")
    else:
        try:
            for form, path in results.items():
                _write(path, rendered(outcome, form))
        except OSError as error:
            result.failed += 1
            _say(f"{recording}: {error.filename} cannot be written: {error.strerror}")
            return
    result.transcribed += 1
    result.with_warnings += bool(outcome.warnings)
    result.seconds += outcome.duration


def _write(path: Path, text: str) -> None:
    """Write a whole file or none: an interrupted run must not leave a part that looks done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _say(line: str) -> None:
    print(f"auricle: {line}", file=sys.stderr)


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal; yields a function that counts a recording by its name."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("recordings", total=total)
        yield lambda name: progress.update(task, advance=1, description=name)


def _summarize(result: BatchResult, seconds: float) -> None:
    parts = [f"{result.transcribed} transcribed", f"{result.failed} failed"]
    if result.skipped:
        parts.append(f"{result.skipped} skipped: their results exist (--force repeats them)")
    _say(f"{', '.join(parts)}; {result.seconds:.1f} s of audio in {seconds:.1f} s")
