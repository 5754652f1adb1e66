"""A page about one recording that needs nothing else: waveform, text by time, playback."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template

import numpy as np
import soundfile

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.checkpoint.languages import language_code
from auricle.client.events import Final
from auricle.errors import BadRequest

_COLUMNS = 1200  # of the waveform; its height is 2
# What browsers hold of a page's address, in which the audio is.
_MOST_SECONDS = 3600.0


def check_report(path: Path, seconds: float) -> None:
    """Raise BadRequest if a report of so many seconds of audio cannot be written there."""
    if seconds > _MOST_SECONDS:
        raise BadRequest(
            f"a report has its audio in it, at most {_MOST_SECONDS:g} s; this is {seconds:.0f} s"
        )
    if not path.parent.is_dir():
        raise BadRequest(f"the report's folder does not exist: {path.parent}")


def write_report(path: Path, name: str, samples: Int16, finals: Sequence[Final]) -> None:
    """Write the page; `samples` are mono at 16 kHz, and the times of `finals` are theirs.

    Raises BadRequest if it cannot be written.
    """
    page = Template(files("auricle.client").joinpath("report.html").read_text()).substitute(
        name=html.escape(name),
        seconds=f"{len(samples) / SAMPLE_RATE:.3f}",
        columns=_COLUMNS,
        wave=_wave(samples),
        audio=base64.b64encode(_flac(samples)).decode(),
        segments="\n".join(_segment(final) for final in finals if final.text),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"the report cannot be written: {error}") from None


def _wave(samples: Int16) -> str:
    """Return the outline of the loudest sample of each column, as the path of an SVG."""
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


def _segment(final: Final) -> str:
    start, end = final.start_ms / 1000, final.end_ms / 1000
    clock = f"{int(start) // 60}:{int(start) % 60:02d}"
    return (
        f'<li data-start="{start:.3f}" data-end="{end:.3f}">'
        f'<button type="button" aria-label="Play from {clock}">{clock}</button> '
        f'<span lang="{html.escape(_tag(final.language))}">{html.escape(final.text)}</span></li>'
    )


def _tag(language: str) -> str:
    """Return the language as HTML names it; empty, which stands for unknown, if it has no code."""
    return language_code(language) or ""
