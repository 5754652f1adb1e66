"""Announced starts and ends of speech compared with the real ones; and words found in silence."""

from __future__ import annotations

import asyncio
import random

import jiwer
import numpy as np

from auricle_testing.feed import speech_marks
from auricle_testing.server import serving
from benchmarks.prepared import corpus
from benchmarks.speech import Recording, at_level, spoken, without_words
from benchmarks.streaming.scale import Scale

_GAPS = (0.9, 2.0)  # longer than the 500 ms of silence that end speech
_MINUTE = 60.0


async def _endpoint_errors(url: str, recordings: list[Recording]) -> list[float]:
    """Milliseconds from each onset and offset to the nearest one announced."""
    errors: list[float] = []
    for recording in recordings:
        events = await speech_marks(url, recording.samples)
        for kind, side in (("speech_started", 0), ("speech_stopped", 1)):
            said = np.array([e["at_ms"] for e in events if e["type"] == kind], float)
            if not len(said):
                said = np.array([np.inf])
            for sentence in recording.sentences:
                errors.append(float(np.abs(said - 1000 * sentence[side]).min()))
    return errors


async def _words_found(url: str, recordings: list[Recording], dbfs: float) -> float:
    """Return the share of spoken words that are recognised at that loudness."""
    hits = total = 0
    for recording in recordings:
        events = await speech_marks(url, at_level(recording.samples, dbfs))
        measured = jiwer.process_words(
            " ".join(word.text for word in recording.words), events[-1]["text"] or "-"
        )
        hits += measured.hits
        total += len(recording.words)
    return hits / total


async def _words_on_silence(url: str, seconds: float, count: int) -> tuple[float, float]:
    """Return (words, decodes) per minute of audio without words."""
    words = decodes = 0
    for samples in without_words(corpus("seen"), seconds, count):
        done = (await speech_marks(url, samples))[-1]
        words += len(done["text"].split())
        decodes += done["usage"]["decodes"]
    minutes = seconds * count / _MINUTE
    return words / minutes, decodes / minutes


async def _measure(url: str, scale: Scale) -> dict[str, float]:
    dice = random.Random(11)
    voices = [corpus(name) for name in ("seen", "unseen")]
    gaps = [spoken(voices[i % 2], dice, 20.0, _GAPS) for i in range(scale.gap_recordings)]
    errors = await _endpoint_errors(url, gaps)
    loud, quiet = [await _words_found(url, gaps, dbfs) for dbfs in (-20.0, -40.0)]
    words, decodes = await _words_on_silence(url, 20.0, scale.wordless_recordings)
    return {
        "endpoint_error_p95_ms": float(np.percentile(errors, 95)),
        "endpoint_error_median_ms": float(np.median(errors)),
        "quiet_speech_recall": quiet / loud,
        "words_found_at_minus_20_dbfs": loud,
        "words_per_minute_on_silence": words,
        "decodes_per_minute_on_silence": decodes,
    }


def figures(scale: Scale) -> dict[str, float]:
    """Of the demo checkpoint, over the WebSocket."""
    with serving() as server:
        return asyncio.run(_measure(server.url, scale))
