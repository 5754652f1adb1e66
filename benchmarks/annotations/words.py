"""How far word times are from the truth, and whether the graph's are those of transformers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from auricle.audio.pcm import Int16
from benchmarks.annotations.graph import Asked, Told, finals, speech, told, words
from benchmarks.parts import LeftOut
from benchmarks.prepared import ROOT
from models.training.align.evaluate import LENGTHS, clips, differences, judged
from models.training.align.reference import AlignerReference
from models.training.corpus import Corpus

_VOICES = {"training": "seen", "unseen": "unseen"}
_CORPUS = ROOT / "build/demo-corpus"


def word_errors(asked: Asked) -> dict[str, float]:
    """Compare boundaries with espeak-ng's own, and in part with pocketsphinx's."""
    if not asked.trained:
        raise LeftOut(f"{asked.aligner} has random weights: its times mean nothing")
    aligner, count = AlignerReference(asked.aligner), asked.of(40, 8, 3)
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


def equality(asked: Asked) -> dict[str, float]:
    """Return the share of boundaries at which graph and transformers agree to the millisecond."""
    said = speech(asked.of(24, 8), 8.0)
    with asked.serving() as server:
        heard = asyncio.run(_heard(server.url, said))
    reference, same = AlignerReference(asked.aligner), list[bool]()
    for pcm, events in zip(said, heard, strict=True):
        (final,) = finals(events).values()
        found = words(events)[final.segment].words
        times = reference.times(pcm.astype(np.float32) / 32768, [word.word for word in found])
        # There may be more classes than the segment has places: beyond its end there is no time.
        true = [min(round(1000 * time), final.end_ms) for pair in times for time in pair]
        given = [time for word in found for time in (word.start_ms, word.end_ms)]
        same += [a == b for a, b in zip(given, true, strict=True)] or [False]
    return {"align_equals_transformers": sum(same) / len(same), "align_boundaries": len(same)}


async def _heard(url: str, said: Sequence[Int16]) -> list[list[Told]]:
    # Each recording is one segment, so that both are given the same audio.
    whole = {"partials": False, "endpointing": {"enabled": False}}
    return [await told(url, pcm, **whole) for pcm in said]
