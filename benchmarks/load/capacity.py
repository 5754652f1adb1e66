"""Searches for the largest number of sessions that a server carries within the SLO."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from auricle.tools.load_generation.search import most_carried
from benchmarks.load.metrics import Slo, word_errors
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.subjects import Running, Subject
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.load.usage import Usage, measured

CARRIED_SHARE = 0.99


@dataclass(frozen=True)
class Condition:
    """The conditions of load that all subjects of a comparison share."""

    chunk_ms: int
    lengths: tuple[float, float]
    seconds: float  # of one trial
    stop_seconds: float = 0.5
    worst_wer: float | None = None  # see `Load`

    @property
    def slo(self) -> Slo:
        """The SLO at this cadence."""
        return Slo(self.chunk_ms / 1000, self.stop_seconds)

    def __str__(self) -> str:
        low, high = self.lengths
        return f"{self.chunk_ms} ms chunks, sessions of {low:g} to {high:g} s"


@dataclass
class Point:
    """One number of sessions and its trials."""

    sessions: int
    trials: list[Trial] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    @property
    def carried(self) -> bool:
        """Whether most of the trials were within the SLO."""
        return statistics.median(carried(t) for t in self.trials) > 0.5

    def figures(self) -> dict[str, float]:
        """Return the medians over trials."""
        rows = [
            trial.figures()
            | {
                "cpu_per_audio_second": usage.total_cpu_seconds / max(1e-9, _audio(trial)),
                "cores": usage.total_cpu_seconds / usage.seconds,
                "peak_mib": usage.peak_mib,
            }
            for trial, usage in zip(self.trials, self.usages, strict=True)
        ]
        return {"carried": float(self.carried)} | {
            name: statistics.median(row[name] for row in rows) for name in rows[0]
        }


def _audio(trial: Trial) -> float:
    """Return the seconds of audio offered while CPU was counted: slots are hardly ever silent."""
    return trial.load.sessions * trial.seconds


def carried(trial: Trial) -> bool:
    """Whether 99% of sessions were inside the SLO, none was refused or stretched, words were
    recognized, and the load was valid."""
    slo, worst = trial.load.slo, trial.load.worst_wer
    less = any(r.outcome == "refused" or slo.stretched(r) for r in trial.records)
    wrong = worst is not None and word_errors(trial.records).wer > worst
    return trial.valid and not less and not wrong and trial.slo_share >= CARRIED_SHARE


@dataclass
class Search:
    """The trials of one subject; `capacity` is the largest number carried."""

    condition: Condition
    points: dict[int, Point] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """The largest number carried; 0 if one session is too many."""
        return max((n for n, point in self.points.items() if point.carried), default=0)

    def plain(self) -> list[dict[str, float]]:
        """Return the curve as JSON data."""
        return [
            {"sessions_offered": n, **point.figures()} for n, point in sorted(self.points.items())
        ]


class CapacitySearch:
    """Grows by a third from a first guess until the capacity is bracketed, then bisects."""

    def __init__(
        self, subject: Subject, server: Running, condition: Condition, *, repeats: int,
        log: Callable[[str], None] = lambda _line: None,
    ) -> None:  # fmt: skip
        self._subject, self._server, self._repeats, self._log = subject, server, repeats, log
        self.search = Search(condition)

    def run(self, first: int, *, most: int = 256, resolution: float = 0.1) -> Search:
        """Search the capacity to a relative `resolution`, but at least to one session."""
        most_carried(
            lambda sessions: self.tried(sessions).carried, first, most=most, resolution=resolution,
            growth=4 / 3,
        )  # fmt: skip
        return self.search

    def tried(self, sessions: int) -> Point:
        """Run `repeats` trials, or two if these agree."""
        point = Point(sessions)
        while len(point.trials) < self._repeats:
            trial, usage = self._trial(sessions, len(point.trials))
            point.trials.append(trial)
            point.usages.append(usage)
            verdicts = [carried(t) for t in point.trials]
            if len(verdicts) >= (self._repeats + 1) // 2 and len(set(verdicts)) == 1:
                break
        self.search.points[sessions] = point
        self._log(
            f"{self._subject.name} {self._subject.model} {sessions}: "
            + ("carried" if point.carried else "not carried")
            + f" ({point.trials[-1].slo_share:.1%} inside)"
            + (f", invalid: {why}" if (why := point.trials[-1].invalid) else "")
        )
        return point

    def _trial(self, sessions: int, repeat: int) -> tuple[Trial, Usage]:
        condition = self.search.condition
        load = Load(sessions, condition.seconds, slo=condition.slo, worst_wer=condition.worst_wer)
        planner = Planner(SpeechStyle(condition.lengths), seed=1000 * sessions + repeat)
        with measured(self._server.process) as usage:
            target = self._server.target(condition.chunk_ms)
            trial = asyncio.run(run_trial(load, planner, self._subject.session, target))
        time.sleep(1.0)  # until sessions that were cancelled at the end are released
        return trial, usage
