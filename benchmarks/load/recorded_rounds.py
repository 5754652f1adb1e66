"""Recordings: our server compared with stock vLLM's at its best, in turns in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.load import recorded
from benchmarks.load.recorded import Rtfx
from benchmarks.load.scale import Scale
from benchmarks.load.subjects import Subject, running

OURS, WHOLE, CUT = "ours", "vllm-openai", "vllm-openai-cut"
_FILES_AT_A_TIME = 8
# Requests of the client that cuts: with whole files, vLLM has as many prompts at a time.
_PIECES_AT_A_TIME = 64
# A server for recordings only need not reserve capacity for live sessions.
_OPTIONS = (
    "--Frontend.recording_parts_in_flight=16",
    "--PdWorker.max_requests=32",
    "--PdWorker.landing_slots=256",
    "--EncodeWorker.slots=256",
)
# A smaller difference, one word in a thousand, counts as rounding.
_SAME_WER = 0.001


def compare(
    model: str, scale: Scale, work: Path, told: Callable[[str], None]
) -> dict[str, list[Rtfx]]:
    """Return each server's figures: of long files the medians of all rounds, then of short ones.

    Stock vLLM also serves a client that cuts at pauses; the time of cutting does not count.
    """
    long = recorded.recordings(scale.long_files, scale.long_seconds[model], seed=5)
    short = recorded.recordings(64, 8.0, seed=6)
    cut = [recorded.cut_at_pauses(plan) for plan in long]
    warm = recorded.recordings(_FILES_AT_A_TIME, 30.0, seed=7)
    rounds: dict[str, list[Rtfx]] = {name: [] for name in (OURS, WHOLE, CUT)}
    found: dict[str, list[Rtfx]] = {}
    with (
        running(Subject(OURS, model), work, *_OPTIONS) as ours,
        running(Subject(WHOLE, model), work) as theirs,
    ):
        for server in (ours, theirs):
            asyncio.run(recorded.rtfx(server, warm, _FILES_AT_A_TIME))
        for _ in range(scale.recorded_rounds):
            whole = recorded.rtfx(ours, long, _FILES_AT_A_TIME)
            rounds[OURS].append(asyncio.run(whole))
            whole = recorded.rtfx(theirs, long, _FILES_AT_A_TIME)
            rounds[WHOLE].append(asyncio.run(whole))
            pieces = recorded.rtfx(theirs, long, _PIECES_AT_A_TIME, pieces=cut)
            rounds[CUT].append(asyncio.run(pieces))
        for name, some in rounds.items():
            found[name] = [recorded.median(some)]
            told(f"{name} {model}: {found[name][0].rtfx:.1f} x real time")
        for concurrency in scale.short_at_a_time:
            for name, server in ((OURS, ours), (WHOLE, theirs)):
                found[name].append(asyncio.run(recorded.rtfx(server, short, concurrency)))
    return found


def ratios(model: str, found: Mapping[str, Rtfx]) -> tuple[str, dict[str, float]]:
    """Return why the ratios are invalid, and the ratios of ours to the best of the others.

    They are invalid if a file failed, or if our word error rate is above the best baseline's: speed
    and cost then mean nothing.
    """
    ours, others = found[OURS], [one for name, one in found.items() if name != OURS]
    fastest = max(others, key=lambda one: one.rtfx)
    cheapest = min(others, key=lambda one: one.cpu_ms)
    failed = sum(one.failed for one in found.values())
    wer = min(fastest.wer, cheapest.wer) + _SAME_WER
    invalid = f"{failed:g} files failed" if failed else ""
    if ours.wer > wer:
        invalid = invalid or f"WER {ours.wer:.3f}, best baseline {wer - _SAME_WER:.3f}"
    return invalid, {
        f"rtfx_ratio_long_{model}": ours.rtfx / fastest.rtfx,
        f"cpu_ratio_long_{model}": cheapest.cpu_ms / ours.cpu_ms,
    }
