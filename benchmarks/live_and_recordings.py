"""Live sessions while recordings are uploaded: the delay of the last text, the recordings' speed.

    python -m benchmarks.live_and_recordings --out FILE.json [--quick | --smoke]
        [--models whisper-tiny.en whisper-base] [--sessions 1] [--seconds 180]
        [--settings Frontend.recording_parts_in_flight=1 …]

Recordings of people, with published weights (`auricle models pull`) and configs/whisper.yaml: live
sessions alone, recordings alone, four uploads at a time, and both.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

from benchmarks.harness import Benchmark, Run, main
from benchmarks.load.protocols import Target
from benchmarks.peers import live, recordings, speech
from benchmarks.peers.figures import OURS
from benchmarks.peers.servers import WHISPER, Serving, running, weights
from benchmarks.real_speech.corpus import Spoken
from benchmarks.statistics import percentile


class Uploads:
    """Uploads recordings again and again, each time softer, so that no cache has them."""

    def __init__(self, target: Target, some: list[Spoken]) -> None:
        self._target, self._some = target, some
        self._over = threading.Event()
        self._audio_seconds = sum(one.seconds for one in some)
        self.speeds: list[float] = []  # of each round, times real time

    def upload(self) -> None:
        """Upload all of them, one round."""
        self._some = [recordings.softer(one) for one in self._some]
        began = time.monotonic()
        recordings.posted(self._target, self._some)
        self.speeds.append(self._audio_seconds / (time.monotonic() - began))

    def _upload_until_over(self) -> None:
        while not self._over.is_set():
            self.upload()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Upload until the block ends, and then those that are left of a round."""
        with ThreadPoolExecutor(1) as pool:
            uploading = pool.submit(self._upload_until_over)
            try:
                yield
            finally:
                self._over.set()
            uploading.result()


def _live(
    server: Serving, model: str, some: list[Spoken], run: Run, seed: int
) -> tuple[list[float], str]:
    """Return the seconds from the end of each live session to its last text, and why packets were
    late, if they were."""
    seconds = run.arguments.seconds or run.of(180, 60, 40)
    plans = speech.sessions(model, some, seed)
    row = live.measure(OURS, server, plans, run.arguments.sessions, seconds)
    found = [one["final"] for one in row["heard"] if one["final"] is not None]
    if not found:
        raise RuntimeError(f"no session ended within {seconds:g} s")
    return found, row["late"]


def _measure(run: Run) -> None:
    for model in run.arguments.models or WHISPER[: run.of(2, 1)]:
        some = speech.recordings(model, run.of(12, 3, 1))
        settings = (f"--{setting}" for setting in run.arguments.settings)
        with running(OURS, weights(model), *settings) as server:
            live.warm_up(OURS, server, speech.sessions(model, some, seed=0))
            uploads = Uploads(server.target, some)
            uploads.upload()
            found, invalid = {"recordings_speed_alone": uploads.speeds.pop()}, ""
            for name, around in (("_alone", nullcontext()), ("", uploads.going_on())):
                with around:
                    delays, late = _live(server, model, some, run, seed=1 if name else 2)
                invalid = invalid or late
                found[f"live_final_p50{name}_s"] = percentile(delays, 0.5)
                found[f"live_final_p95{name}_s"] = percentile(delays, 0.95)
                found[f"live_ended{name}"] = len(delays)
            found["recordings_speed"] = statistics.harmonic_mean(uploads.speeds)
        run.publish({f"{model}_{key}": value for key, value in found.items()}, invalid)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=WHISPER)
    parser.add_argument("--sessions", type=int, default=1, help="live sessions at a time")
    parser.add_argument("--seconds", type=float, help="of live sessions, without and with uploads")
    parser.add_argument("--settings", nargs="+", default=[], metavar="NAME=VALUE")


BENCHMARK = Benchmark(
    description=__doc__, parts={"live_and_recordings": _measure}, arguments=_arguments
)

if __name__ == "__main__":
    main(BENCHMARK)
