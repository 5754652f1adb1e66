"""The cost of a session: time per chunk as it grows, and CPU compared with the baselines.

The model is the `60m` checkpoint with random weights, whose output is 3.5 tokens per second of any
audio. Compute is the CPU seconds of all server processes.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import psutil

from auricle.audio.pcm import to_int16
from auricle_testing.feed import CHUNK, SAMPLE_RATE, ChunkTime, Fed, feed
from auricle_testing.server import Server, serving
from benchmarks.baselines.client import baseline
from benchmarks.baselines.protocol import DecodeJob, cpu_seconds
from benchmarks.baselines.published import Position, integrated, positions, sampled
from benchmarks.checkpoints import TOKENS_PER_SECOND
from benchmarks.prepared import checkpoint, corpus
from benchmarks.speech import spoken
from benchmarks.streaming.scale import Scale
from models.training.prompts import prompt_ids

_SEGMENT_SECONDS = 30.0
_NO_TARGET_MS = 10**9  # no chunk takes longer
# Both have a context of the same length: ours in characters, a baseline's as text of its prompt.
_CONTEXT_CHARACTERS = 120
_CONTEXT = " ".join(["baba"] * 24)


@dataclass
class Cost:
    """Everything measured, for figures and plots. Seconds."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    chunks: list[ChunkTime] = field(default_factory=list)
    capped: list[ChunkTime] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    unanswered: int = 0  # grid points of `capped` that were not decoded, all sent in a hurry
    baselines: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def speech(seconds: float) -> np.ndarray:
    """One speaker without long pauses."""
    recording = spoken(corpus("seen"), random.Random(3), seconds, (0.1, 0.4))
    return recording.samples[: int(seconds * SAMPLE_RATE)]


def server_options(model: Path, segment_seconds: float) -> list[str]:
    """Return options that cut segments only at their cap, force the amount of text, and admit all.

    The feeder sends the next chunk only after the last one's answer.
    """
    return [
        f"--Common.model={model.resolve()}",
        f"--Processor.max_segment_seconds={segment_seconds:g}",
        f"--Processor.pause_after_seconds={segment_seconds:g}",
        f"--Common.context_characters={_CONTEXT_CHARACTERS}",
        f"--Processor.max_tokens_per_second={TOKENS_PER_SECOND}",
        "--Processor.min_new_tokens=1",
        "--Processor.loop_guard=false",  # every answer meets that limit
        f"--Processor.target_chunk_ms={_NO_TARGET_MS}",
        "--Processor.decode_deadline_seconds=300",  # after chunks in a hurry, one decode is long
        "--Frontend.idle_timeout_seconds=600",  # the feeder's own deadline is shorter
        f"--PdWorker.max_model_len={2048 if segment_seconds <= _SEGMENT_SECONDS else 8192}",
    ]


def _fed(
    server: Server,
    samples: np.ndarray,
    segment_seconds: float,
    in_a_hurry: tuple[float, float] = (0.0, 0.0),
) -> tuple[Fed, float]:
    """Run a session; return it, and the CPU seconds of all of the server's processes."""
    launcher = psutil.Process(server.process.pid)
    before = cpu_seconds(launcher)
    fed = asyncio.run(feed(server.url, samples, segment_seconds, in_a_hurry))
    return fed, cpu_seconds(launcher) - before


def _ours(cost: Cost, model: Path, scale: Scale) -> None:
    """Run sessions in segments of 30 s, with new audio each so that caches are cold, and a session
    of one segment."""
    with serving(*server_options(model, _SEGMENT_SECONDS)) as server:
        _fed(server, speech(8.0) * np.float32(0.3), _SEGMENT_SECONDS)  # first contact, kernels
        for seconds in scale.sessions:
            for number in range(scale.repeats):
                samples = speech(seconds) * np.float32(0.9 - 0.1 * number)
                fed, cpu = _fed(server, samples, _SEGMENT_SECONDS)
                cost.ours.setdefault(f"cpu_{seconds}s", []).append(cpu)
                if seconds == scale.sessions[-1]:
                    cost.chunks += fed.chunks
                    cost.segments = fed.segments
    cap = scale.cap_seconds
    with serving(*server_options(model, cap)) as server:
        fed, cpu = _fed(server, speech(cap), cap, scale.hurry)
        cost.capped, cost.unanswered = fed.chunks, fed.unanswered
        if not fed.unanswered:
            cost.ours[f"cpu_{cap:g}s_one_segment"] = [cpu]


def _baseline(cost: Cost, name: str, model: Path, work: Path, scale: Scale) -> None:
    """Wall and CPU seconds of decodes of growing audio, at sampled lengths up to the cap."""
    samples = to_int16(speech(scale.cap_seconds))
    path = work / "speech.raw"
    samples.astype("<i2").tofile(path)
    head, tail, word = _prompt(model)
    every = positions([(0, len(samples))], CHUNK, TOKENS_PER_SECOND)
    minute = [p for p in every if p.end <= 60 * SAMPLE_RATE]
    short, long = scale.baseline_points
    chosen = [*sampled(minute, short), *sampled(every[len(minute) :], long)]
    rows = []
    with baseline(name, model, work / f"baseline-{name}-60m.log") as subject:
        for position in [chosen[0], *chosen]:  # the first one twice, as a warm-up
            prefix = [word] * position.prefix_tokens  # only its length matters
            result = subject.decode(
                DecodeJob(
                    audio=str(path.resolve()),
                    start=0,
                    end=position.end,
                    head=head,
                    tail=[*tail, *prefix],
                    max_tokens=position.new_tokens,
                )
            )
            seconds = position.end / SAMPLE_RATE
            rows.append((seconds, result.wall_seconds, result.cpu_seconds))
    cost.baselines[name] = rows[1:]
    path.unlink()


def _prompt(model: Path) -> tuple[list[int], list[int], int]:
    """Return the prompt's tokens before the audio and after it, and the token of some word."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    ids = prompt_ids(tokenizer, _CONTEXT, 1)
    at = ids.index(tokenizer.convert_tokens_to_ids("<|audio_pad|>"))
    forced = tokenizer("language English<asr_text>").input_ids
    return ids[:at], [*ids[at + 1 :], *forced], tokenizer(" baba").input_ids[0]


def measure(work: Path, scale: Scale) -> Cost:
    """Measure ours and both baselines, one after the other on the same machine."""
    cost, model = Cost(), checkpoint("60m")
    _ours(cost, model, scale)
    for name in ("a", "b"):
        _baseline(cost, name, model, work, scale)
    return cost


def figures(cost: Cost, scale: Scale) -> dict[str, float]:
    """Return the ratios of one run, medians over repeats.

    `chunk_time_growth_cap…` compares chunks that were all decoded. If grid points between them were
    skipped (`cap…_grid_points_unanswered`), the CPU seconds of that session are not measured. The
    growth still is, because the prompt has the same length after a hurry as without one.
    """
    long, cap = scale.sessions[-1], f"cap{scale.cap_seconds:g}"
    end = (scale.cap_seconds - 10, scale.cap_seconds)
    found = {
        "chunk_time_growth_session": growth_session(cost.chunks),
        "chunk_time_growth_segment": _ratio(cost.chunks, (25, 30), (5, 10)),
        f"chunk_time_growth_{cap}": _ratio(cost.capped, end, (10, 20)),
        f"{cap}_grid_points_unanswered": float(cost.unanswered),
        "chunk_seconds_median": statistics.median(c.seconds for c in cost.chunks),
    }
    for name, values in cost.ours.items():
        found[f"ours_{name}"] = statistics.median(values)
    whole = {s: positions([(0, s * SAMPLE_RATE)], CHUNK, TOKENS_PER_SECOND) for s in scale.sessions}
    segmented = positions(cost.segments, CHUNK, TOKENS_PER_SECOND)
    for name, rows in cost.baselines.items():
        for seconds, wanted in whole.items():
            total = _total(rows, wanted)
            found[f"cpu_{name}_{seconds}s"] = total
            found[f"compute_ratio_{name}_{seconds}s"] = total / found[f"ours_cpu_{seconds}s"]
        total = _total(rows, segmented)
        found[f"cpu_{name}_segmented"] = total
        found[f"compute_ratio_{name}_segmented"] = total / found[f"ours_cpu_{long}s"]
        walls = {seconds: wall for seconds, wall, _ in rows}
        late = _interpolated(walls, end)
        found[f"chunk_time_growth_{cap}_{name}"] = late / _interpolated(walls, (10, 20))
    return found


def growth_session(chunks: Sequence[ChunkTime]) -> float:
    """Last whole segment ÷ second one, chunk by chunk at the same place in the segment."""
    by_segment: dict[int, list[ChunkTime]] = {}
    for chunk in chunks:
        by_segment.setdefault(chunk.segment, []).append(chunk)
    whole = [s for s, c in by_segment.items() if c[-1].offset > _SEGMENT_SECONDS / 2]
    second, last = by_segment[1], by_segment[whole[-1]]
    place: Callable[[ChunkTime], float] = lambda c: round(c.offset / 2)  # noqa: E731
    ratios = []
    for at in {place(c) for c in second} & {place(c) for c in last}:
        before, after = (
            statistics.median(c.seconds for c in part if place(c) == at) for part in (second, last)
        )
        ratios.append(after / before)
    return statistics.median(ratios)


def _ratio(
    chunks: Sequence[ChunkTime], late: tuple[float, float], early: tuple[float, float]
) -> float:
    first, second = (
        statistics.median(c.seconds for c in chunks if low <= c.offset < high)
        for low, high in (late, early)
    )
    return first / second


def _total(rows: Sequence[tuple[float, float, float]], wanted: Sequence[Position]) -> float:
    chosen = [Position(i, 0, round(s * SAMPLE_RATE), 0, 1) for i, (s, _, _) in enumerate(rows)]
    return integrated(chosen, [cpu for _, _, cpu in rows], wanted)


def _interpolated(walls: dict[float, float], between: tuple[float, float]) -> float:
    at = np.linspace(*between, 16)
    return float(np.interp(at, sorted(walls), [walls[s] for s in sorted(walls)]).mean())
