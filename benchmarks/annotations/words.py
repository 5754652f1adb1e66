"""The accuracy of word times, and whether the graph's times equal transformers'."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from auricle.audio.pcm import Int16, to_float
from auricle.client import Words
from benchmarks.annotations.graph import annotating, speech, with_words
from benchmarks.harness import LeftOut, Run
from benchmarks.prepared import ROOT
from benchmarks.sessions import Session
from models.training.align.evaluate import LENGTHS, clips, differences, judged
from models.training.align.reference import AlignerReference
from models.training.corpus import Corpus

_VOICES = {"training": "seen", "unseen": "unseen"}
_CORPUS = ROOT / "build/demo-corpus"


def word_errors(run: Run) -> dict[str, float]:
    """Compare boundaries with espeak-ng's own, and in part with pocketsphinx's."""
    path = run.arguments.aligner
    if not run.arguments.trained:
        raise LeftOut(f"{path} has random weights, so its times are meaningless")
    aligner, count = AlignerReference(path), run.of(40, 8, 3)
    found: dict[str, float] = {}
    for label, name in _VOICES.items():
        spoken = Corpus(_CORPUS, name)
        errors = [
            error
            for seconds in LENGTHS
            for clip in clips(spoken, seconds, count)
            for error in differences(
                aligner.times(clip.samples, [s.word for s in clip.said]), clip.said
            )
        ]
        median, late = np.percentile(errors, (50, 95))
        found |= {
            f"word_error_ms_median_{label}": float(median),
            f"word_error_ms_p95_{label}": float(late),
        }
    whole = [c for s in LENGTHS for c in clips(Corpus(_CORPUS, "seen"), s, count // 3, whole=True)]
    found["judge_difference_ms_median"] = judged(aligner, whole)["aligner and judge"].median
    return found


def equality(run: Run) -> dict[str, float]:
    """Return the share of boundaries on which graph and transformers agree to the millisecond."""
    recordings = speech(run.of(24, 8), 8.0)
    with annotating(run) as server:
        sessions = asyncio.run(_sessions(server.url, recordings))
    reference, same = AlignerReference(run.arguments.aligner), list[bool]()
    for pcm, session in zip(recordings, sessions, strict=True):
        (final,) = session.finals().values()
        found = session.of(Words)[final.segment].words
        times = reference.times(to_float(pcm), [word.word for word in found])
        # The model may place a time after the segment's end; the graph reports the end instead.
        true = [min(round(1000 * time), final.end_ms) for pair in times for time in pair]
        given = [time for word in found for time in (word.start_ms, word.end_ms)]
        same += [a == b for a, b in zip(given, true, strict=True)] or [False]
    return {"align_equals_transformers": sum(same) / len(same), "align_boundaries": len(same)}


async def _sessions(url: str, recordings: Sequence[Int16]) -> list[Session]:
    # Each recording is one segment, so that both get the same audio.
    whole = {"partials": False, "endpointing": {"enabled": False}}
    return [await with_words(url, pcm, **whole) for pcm in recordings]
