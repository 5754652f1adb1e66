"""Diarization error rates by pyannote.metrics, in the environment of `make bench-env`.

    .venv-bench/bin/python -m benchmarks.annotations.scoring

reads a list of `Scored` as JSON and writes the rate of each of their `names`, without a collar,
over all conversations that have it, and the 95% interval of their mean, `NAME_low` to `NAME_high`.
Importing the module elsewhere needs no pyannote.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.baselines.client import PYTHON, ROOT

_SECONDS = 300.0
_CONFIDENCE = 0.95

# Speaker, start and end in seconds.
Spans = tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Scored:
    """A conversation, and the rates that it counts in: true and detected speakers."""

    names: tuple[str, ...]
    truth: Spans
    detected: Spans


def error_rates(conversations: Sequence[Scored]) -> dict[str, float]:
    """Return the error rate of each name, with its interval. Raises RuntimeError on failure."""
    done = subprocess.run(
        [str(PYTHON), "-m", "benchmarks.annotations.scoring"],
        input=json.dumps([asdict(one) for one in conversations]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"pyannote.metrics failed: {done.stderr[-2000:]}")
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


def _rates(conversations: Sequence[Scored]) -> dict[str, float]:
    from pyannote.core import Annotation, Segment  # type: ignore[import-not-found]
    from pyannote.metrics.diarization import (  # type: ignore[import-not-found]
        DiarizationErrorRate,
    )

    def annotated(spans: Spans) -> Annotation:
        found = Annotation()
        for number, (speaker, start, end) in enumerate(spans):
            found[Segment(start, end), number] = speaker
        return found

    metrics: dict[str, DiarizationErrorRate] = {}
    for one in conversations:
        for name in one.names:
            metrics.setdefault(name, DiarizationErrorRate())(
                annotated(one.truth), annotated(one.detected)
            )
    rates: dict[str, float] = {}
    for name, metric in metrics.items():
        _, (low, high) = metric.confidence_interval(_CONFIDENCE)
        rates |= {name: abs(metric), f"{name}_low": low, f"{name}_high": high}
    return rates


if __name__ == "__main__":
    json.dump(_rates([Scored(**one) for one in json.load(sys.stdin)]), sys.stdout)
