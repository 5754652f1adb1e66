"""A self-contained page about one recording: waveform, text by time, playback."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template

import numpy as np
import soundfile

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.checkpoints.languages import language_code, language_name
from auricle.client.events import StreamEvent
from auricle.core.errors import BadRequest
from auricle.protocol.stream import Final, SpeakerPart, Speakers, Translation, Word, Words
from auricle.transcript.words import divided

# Words with less confidence are underlined; the page explains it.
UNSURE, DOUBTFUL = 0.8, 0.5
COLOURS = 6  # of speakers, reused in turn
_WHY = {
    "starting": "its pool is starting",
    "unavailable": "no worker of its pool answers",
    "overloaded": "its pool is full",
    "deadline": "no answer in time",
    "language": "the aligner lacks the language",
    "nobody_heard": "no speech was detected",
    "no_audio": "the audio is no longer available",
    "handed_over": "the session moved to another processor",
    "processor_lost": "the processor was lost",
    "session_failed": "the session failed",
    "unsupported_value": "the server does not translate this",
    "same_language": "spoken in this language",
    "length": "cut off at the length limit",
}


@dataclass(frozen=True)
class ReportSegment:
    """A segment with text and its annotations."""

    final: Final
    words: Words | None = None
    speakers: Speakers | None = None
    translation: Translation | None = None

    @property
    def parts(self) -> Sequence[SpeakerPart]:
        """The text by speaker; empty if unknown."""
        return () if self.speakers is None else self.speakers.parts


class ReportSegments:
    """Collects a session's events by segment."""

    def __init__(self) -> None:
        self._found: dict[int, ReportSegment] = {}

    def add(self, event: StreamEvent) -> None:
        if isinstance(event, Final) and event.text:
            self._found[event.segment] = ReportSegment(event)
        elif isinstance(event, Words):
            self._found[event.segment] = replace(self._found[event.segment], words=event)
        elif isinstance(event, Speakers):
            self._found[event.segment] = replace(self._found[event.segment], speakers=event)
        elif isinstance(event, Translation) and event.final:
            self._found[event.segment] = replace(self._found[event.segment], translation=event)

    def segments(self) -> list[ReportSegment]:
        """Return the segments with text, in order."""
        return [*self._found.values()]


def about(segments: Sequence[ReportSegment], seconds: float) -> str:
    """Return the line below the name: duration, words, speakers, confidence."""
    speakers = {part.speaker for segment in segments for part in segment.parts}
    sure = [word.confidence for word in _words(segments) if word.confidence is not None]
    parts = [
        clock(1000 * seconds),
        f"{sum(len(segment.final.text.split()) for segment in segments)} words",
    ]
    if speakers:
        parts.append(f"{len(speakers)} speaker{'s' if len(speakers) > 1 else ''}")
    if sure:
        parts.append(
            f"{100 * sum(sure) / len(sure):.0f}% sure on average; words underlined with dots were "
            f"below {100 * UNSURE:.0f}%, with waves below {100 * DOUBTFUL:.0f}%"
        )
    return ", ".join(parts)


def voices(segments: Sequence[ReportSegment], seconds: float, columns: int) -> str:
    """Return a band of speakers over time below the waveform; empty if unknown."""
    scale = columns / max(1000 * seconds, 1.0)
    bars = [
        f'<rect class="{_colour(part)}" x="{scale * part.start_ms:.1f}" '
        f'width="{scale * (part.end_ms - part.start_ms):.1f}" height="1"/>'
        for segment in segments
        for part in segment.parts
    ]
    if not bars:
        return ""
    return (
        f'<svg class="voices" viewBox="0 0 {columns} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="Who spoke when">{"".join(bars)}</svg>'
    )


def segment_html(segment: ReportSegment) -> str:
    """Return one segment as a list item."""
    final = segment.final
    inside = [*_text(segment)]
    if segment.translation is not None:
        inside.append(_translated(segment.translation))
    inside += [f'<p class="note">{escape(note)}</p>' for note in _notes(segment)]
    if segment.words is not None and segment.words.words:
        inside.append(_table(segment.words))
    return (
        f'<li data-start="{final.start_ms / 1000:.3f}" data-end="{final.end_ms / 1000:.3f}">'
        f"{_button(final.start_ms, clock(final.start_ms))}<div>{''.join(inside)}</div></li>"
    )


def clock(ms: float) -> str:
    """Return a time as minutes and seconds."""
    return f"{int(ms) // 60_000}:{int(ms) // 1000 % 60:02d}"


def _words(segments: Sequence[ReportSegment]) -> Iterator[Word]:
    for segment in segments:
        if segment.words is not None:
            yield from segment.words.words


def _text(segment: ReportSegment) -> Iterator[str]:
    """Yield a paragraph for each change of speaker; a single one without speakers."""
    words = () if segment.words is None else segment.words.words
    spans = [_span(word) for word in words]
    language = f'lang="{escape(_tag(segment.final.language))}"'
    if not segment.parts:
        yield f"<p {language}>{''.join(spans) or escape(segment.final.text)}</p>"
        return
    shares = divided([word.text for word in words], [part.text for part in segment.parts])
    for part, own in zip(segment.parts, shares, strict=True):
        if not part.text:
            continue
        text = "".join(spans[own]) if words else escape(part.text)
        who = f'<b class="{_colour(part)}">Speaker {part.speaker}</b> '
        yield f"<p>{who}<span {language}>{text}</span></p>"


def _span(word: Word) -> str:
    start, end = word.start_ms / 1000, word.end_ms / 1000
    kinds, sure = ["word"], word.confidence
    title = f"{start:.2f} to {end:.2f} s"
    if sure is not None:
        title += f", {100 * sure:.0f}% sure"
        kinds += ["doubtful"] * (sure < DOUBTFUL) or ["unsure"] * (sure < UNSURE)
    text = word.text.rstrip()
    return (
        f'<span class="{" ".join(kinds)}" data-start="{start:.3f}" data-end="{end:.3f}" '
        f'title="{title}">{escape(text)}</span>{escape(word.text[len(text) :])}'
    )


def _translated(translation: Translation) -> str:
    code = escape(translation.language)
    name = f'<b lang="en">{escape(language_name(translation.language))}</b>'
    return f'<p class="translation" lang="{code}">{name} {escape(translation.committed)}</p>'


def _notes(segment: ReportSegment) -> Iterator[str]:
    """Yield a note for each missing annotation, with the reason."""
    words, speakers, translation = segment.words, segment.speakers, segment.translation
    if words is not None and words.missing is not None:
        what = "Word times are coarse" if words.words else "No word times"
        yield f"{what}: {_why(words.missing)}."
    if speakers is not None and speakers.missing is not None:
        yield f"No speakers: {_why(speakers.missing)}."
    if translation is not None and translation.missing is not None:
        language = language_name(translation.language)
        yield f"Not translated into {language}: {_why(translation.missing)}."


def _table(words: Words) -> str:
    rows = "".join(
        f"<tr><td>{escape(word.word)}</td><td>{_button(word.start_ms, _exact(word.start_ms))}</td>"
        f"<td>{_exact(word.end_ms)}</td><td>{_sure(word.confidence)}</td></tr>"
        for word in words.words
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Word", "From", "To", "Sure"))
    return (
        "<details><summary>Words</summary>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _button(start_ms: int, shown: str) -> str:
    return (
        f'<button type="button" data-play="{start_ms / 1000:.3f}" '
        f'aria-label="Play from {shown}">{shown}</button>'
    )


def _exact(ms: int) -> str:
    hundredths = round(ms / 10)
    return f"{hundredths // 6000}:{hundredths % 6000 / 100:05.2f}"


def _sure(confidence: float | None) -> str:
    return "–" if confidence is None else f"{100 * confidence:.0f}%"


def _colour(part: SpeakerPart) -> str:
    return f"s{(part.speaker - 1) % COLOURS + 1}"


def _why(code: str) -> str:
    return _WHY.get(code, code)


def _tag(language: str) -> str:
    """Return the language's code for HTML; empty (unknown) if it has none."""
    return language_code(language) or ""


_COLUMNS = 1200  # of the waveform; its height is 2
# Browsers limit the length of a data URL, which holds the audio.
_MOST_SECONDS = 3600.0


def check_report(path: Path, seconds: float) -> None:
    """Raise BadRequest if a report of `seconds` of audio cannot be written to `path`."""
    if seconds > _MOST_SECONDS:
        raise BadRequest(
            f"a report contains its audio, at most {_MOST_SECONDS:g} s; this is {seconds:.0f} s"
        )
    if not path.parent.is_dir():
        raise BadRequest(f"the report's folder does not exist: {path.parent}")


def write_report(path: Path, name: str, samples: Int16, segments: Sequence[ReportSegment]) -> None:
    """Write the page; `samples` are mono at 16 kHz. Raises BadRequest if it cannot be written."""
    seconds = len(samples) / SAMPLE_RATE
    page = Template(files("auricle.client").joinpath("report.html").read_text()).substitute(
        name=html.escape(name),
        seconds=f"{seconds:.3f}",
        about=html.escape(about(segments, seconds)),
        voices=voices(segments, seconds, _COLUMNS),
        columns=_COLUMNS,
        wave=_wave(samples),
        audio=base64.b64encode(_flac(samples)).decode(),
        segments="\n".join(map(segment_html, segments)),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"the report cannot be written: {error}") from None


def _wave(samples: Int16) -> str:
    """Return the outline of the loudest sample in each column, as an SVG path."""
    edges = np.linspace(0, len(samples), _COLUMNS + 1).astype(np.int64)
    loudest = [
        float(np.abs(samples[low:high].astype(np.int32)).max(initial=0)) / 32768
        for low, high in pairwise(edges)
    ]
    top = [f"{x},{1 - y:.3f}" for x, y in enumerate(loudest)]
    bottom = [f"{x},{1 + y:.3f}" for x, y in reversed(list(enumerate(loudest)))]
    return f"M{' '.join((*top, *bottom))}Z"


def _flac(samples: Int16) -> bytes:
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    return encoded.getvalue()
