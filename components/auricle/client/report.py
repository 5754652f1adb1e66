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
from auricle.client.report_text import Told, about, segment_html, voices
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


def write_report(path: Path, name: str, samples: Int16, segments: Sequence[Told]) -> None:
    """Write the page; `samples` are mono at 16 kHz, and the times of `segments` are theirs.

    Raises BadRequest if it cannot be written.
    """
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
