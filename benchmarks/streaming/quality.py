"""Words right, words committed, tokens equal to baseline (b), and decode steps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from auricle_testing.server import ROOT, Server, serving
from benchmarks.baselines.client import Baseline, baseline
from benchmarks.baselines.protocol import DecodeJob
from benchmarks.prepared import corpus
from benchmarks.speech import Recording, spoken
from benchmarks.streaming.live import Bench, Heard, bench, decode_once, listen
from benchmarks.streaming.scale import Scale
from benchmarks.words import (
    Errors,
    committed_at,
    difference_interval,
    errors,
    matches,
    rate,
    revised,
    spoken_in,
)

MODEL = ROOT / "models/demo"
# As in configs/demo.yaml.
SETTINGS = {"pause_after_seconds": 3, "max_segment_seconds": 20, "context_characters": 0}
_PAUSES = (0.05, 1.0)  # some end a segment, some do not
_AT_ONCE = 4


def recordings(words: int, seconds: float, seed: int) -> list[Recording]:
    """Return recordings of about `words` words, in seen and unseen voices by turns."""
    dice = random.Random(seed)
    voices = [corpus(name) for name in ("seen", "unseen")]
    found: list[Recording] = []
    while sum(len(r.words) for r in found) < words:
        found.append(spoken(voices[len(found) % 2], dice, seconds, _PAUSES))
    return found


async def _hear(subject: Bench, all_recordings: Sequence[Recording]) -> list[list[Heard]]:
    """Every recording's segments, a few sessions at a time."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, recording: Recording) -> list[Heard]:
        async with room:
            return await listen(subject, f"quality-{number}", recording.samples)

    return list(await asyncio.gather(*(one(i, r) for i, r in enumerate(all_recordings))))


async def _measure(server: Server, words: int) -> tuple[dict[str, float], list[Heard]]:
    rows = recordings(words, 60.0, seed=5)
    async with bench(MODEL, server.discovery, SETTINGS) as subject:
        heard = await _hear(subject, rows)
        once = [[(await decode_once(subject, h))[1] for h in segments] for segments in heard]
    streaming: list[Errors] = []
    oneshot: list[Errors] = []
    lags: list[float] = []
    changed = committed = unsupported = finals = 0
    for recording, segments, texts in zip(rows, heard, once, strict=True):
        for segment, text in zip(segments, texts, strict=True):
            final = segment.final
            said = spoken_in(recording.words, final.start_ms / 1000, final.end_ms / 1000)
            reference = " ".join(word.text for word in said)
            streaming.append(errors(reference, final.text))
            oneshot.append(errors(reference, text))
            partials = [(sent / 16_000, partial.committed) for sent, partial in segment.partials]
            times = committed_at(partials, final.text, segment.sent / 16_000)
            heard_words = final.text.split()
            pairs = matches([word.text for word in said], heard_words)
            lags += [times[theirs] - said[mine].end for mine, theirs in pairs]
            one, all_words = revised(partials, final.text)
            changed, committed = changed + one, committed + all_words
            unsupported += len(heard_words) - len(matches(text.split(), heard_words))
            finals += len(heard_words)
    low, high = difference_interval(streaming, oneshot)
    figures = {
        "wer_streaming": rate(streaming),
        "wer_oneshot": rate(oneshot),
        "wer_streaming_minus_oneshot": rate(streaming) - rate(oneshot),
        "wer_streaming_minus_oneshot_low": low,
        "wer_streaming_minus_oneshot_high": high,
        "wer_words": float(sum(row.words for row in streaming)),
        "committed_revised_share": changed / committed,
        "commit_lag_p95_s": float(np.percentile(lags, 95)),
        "commit_lag_median_s": float(np.median(lags)),
        "committed_wrong_share": unsupported / finals,
    }
    return figures, [segment for segments in heard for segment in segments]


def _identical(subject: Baseline, segments: Sequence[Heard], directory: Path) -> float:
    """Return the share of decodes whose tokens equal the baseline's for the same prompt and
    audio."""
    same = total = 0
    for number, segment in enumerate(segments):
        path = directory / f"segment-{number}.raw"
        segment.pcm.astype("<i2").tofile(path)
        for decode in segment.decodes:
            job = DecodeJob(
                audio=str(path.resolve()),
                start=0,
                end=decode.offset,
                head=list(decode.task.head),
                tail=list(decode.task.tail),
                max_tokens=decode.task.max_tokens,
            )
            same += tuple(subject.decode(job).tokens) == decode.reply.tokens
            total += 1
        path.unlink()
    return same / total


async def _steps(server: Server, rows: Sequence[Recording]) -> tuple[float, list[Heard]]:
    """Mean decode steps of a decode, and the segments."""
    async with bench(MODEL, server.discovery, SETTINGS) as subject:
        heard = [s for segments in await _hear(subject, rows) for s in segments]
    decodes = [decode for segment in heard for decode in segment.decodes]
    return float(np.mean([decode.reply.steps for decode in decodes])), heard


def figures(scale: Scale, work: Path) -> dict[str, float]:
    """Of the demo checkpoint."""
    few = recordings(scale.draft_words, 60.0, seed=6)
    with serving() as server:
        found, segments = asyncio.run(_measure(server, scale.words))
        after, with_drafts = asyncio.run(_steps(server, few))
    with serving("--PdWorker.draft_tokens=0") as server:
        before, without_drafts = asyncio.run(_steps(server, few))
    with baseline("b", MODEL, work / "baseline-b-demo.log") as subject:
        chosen = segments[:: max(1, len(segments) // scale.compared_segments)]
        found["tokens_identical_b"] = _identical(subject, chosen, work)
        found["tokens_identical_b_decodes"] = float(sum(len(s.decodes) for s in chosen))
    found["decode_steps_before"] = before
    found["decode_steps_after"] = after
    found["decode_steps_ratio"] = after / before
    found["tokens_identical_without_drafts"] = float(
        np.mean(
            [a.final.text == b.final.text for a, b in zip(with_drafts, without_drafts, strict=True)]
        )
    )
    return found
