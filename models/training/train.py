"""Train the demo checkpoint on the CPU; resumes from its last checkpoint.

    python -m models.training.train --work build/demo [--languages en,de,es] [--steps 36000]
        [--start models/demo] [--minutes 60] [--processes 2]

Several languages take as many steps each as one alone. With `--start` it begins with a published
checkpoint of the same words, at a lower learning rate and with all lengths. With `--minutes` a
sitting ends after so many, and at any time with Ctrl-C: the same command goes on with the next.
Once all steps are made, the file `finished` is in its folder.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.training.augment.surroundings import Surroundings
from models.training.examples import Example, ExampleMaker
from models.training.languages import DEFAULT, chosen
from models.training.mixture import Mixture
from models.training.shards import chosen as chosen_sources
from models.training.sources import SOURCES
from models.training.together import any_says, meeting, start
from models.training.trainer import Trainer, prepare

_BATCH_SECONDS = 40.0  # of all processes
_SAVE_EVERY, _TELL_EVERY = 250, 50
_STEPS = 36_000  # of a language
_MEETING = "meeting"


@dataclass(frozen=True)
class Run:
    """What the command line says; every process gets it."""

    work: Path
    corpus: Path
    languages: tuple[str, ...]
    sources: tuple[str, ...]
    steps: int
    start: Path | None
    minutes: float
    processes: int


def batch(
    maker: ExampleMaker, longest: float, seconds: float, dice: random.Random
) -> list[Example]:
    """Examples of similar length, together about so many `seconds`.

    Lengths are uniform, so that long audio is learned as well as short; a quarter
    is log-uniform for the first second of a session.
    """
    target = dice.uniform(0.5, longest)
    if dice.random() < 0.25:
        target = math.exp(dice.uniform(math.log(0.5), math.log(longest)))
    count = max(1, min(24, round(seconds / target)))
    return [maker.make(max(0.3, target * dice.uniform(0.8, 1.0))) for _ in range(count)]


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM are heard between steps, so that nothing learned is lost."""
    asked = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _process(rank: int, run: Run) -> None:
    """One of the processes that train together; the first one tells, and keeps the checkpoint."""
    with _asked_to_end() as asked, meeting(run.work / _MEETING, rank, run.processes):
        trainer = Trainer(run.work, run.steps, run.languages, run.start, run.sources, seed=rank)
        trainer.resume()
        _sitting(trainer, run, rank, asked)
        if rank == 0:
            trainer.save()
            _close(trainer, run)


def _sitting(trainer: Trainer, run: Run, rank: int, asked: threading.Event) -> None:
    """Train until all steps are made, the minutes are over or the end is `asked` for."""
    corpus = Mixture(run.corpus, run.sources, run.languages)
    seed = trainer.step * run.processes + rank
    maker = ExampleMaker(corpus, seed, Surroundings(seed))
    lengths = random.Random(trainer.step)  # the same in all processes, so that none waits long
    started, first = time.monotonic(), trainer.step
    told, sums = first, [0.0, 0.0]
    if rank == 0:
        print(f"from step {first} to {run.steps}", flush=True)
    while trainer.step < run.steps:
        if any_says(asked.is_set() or time.monotonic() - started >= run.minutes * 60):
            break
        seconds = _BATCH_SECONDS / run.processes
        losses = trainer.train_step(batch(maker, trainer.longest(), seconds, lengths))
        sums = [s + x for s, x in zip(sums, losses, strict=True)]
        if rank == 0 and trainer.step % _TELL_EVERY == 0:
            pace = (time.monotonic() - started) / (trainer.step - first)
            left = (run.steps - trainer.step) * pace / 3600
            decoder, ctc = (total / (trainer.step - told) for total in sums)
            print(
                f"step {trainer.step} decoder {decoder:.3f} ctc {ctc:.3f} {pace:.2f} s/step "
                f"longest {trainer.longest():.0f} s, {left:.1f} h left",
                flush=True,
            )
            told, sums = trainer.step, [0.0, 0.0]
        if rank == 0 and trainer.step % _SAVE_EVERY == 0:
            trainer.save()


def _close(trainer: Trainer, run: Run) -> None:
    if trainer.step >= run.steps:
        (run.work / "finished").touch()
    else:
        print(f"step {trainer.step} of {run.steps}: the same command goes on from here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--languages", type=chosen, default=(DEFAULT,), metavar="en,de,es")
    parser.add_argument("--sources", type=chosen_sources, default=tuple(SOURCES),
                        metavar="flite,people", help="'': espeak-ng's set alone")  # fmt: skip
    parser.add_argument("--steps", type=int, help=f"default: {_STEPS} of each language")
    parser.add_argument("--start", type=Path, help="a checkpoint to begin with")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of this sitting")
    parser.add_argument("--processes", type=int, default=2)
    given = vars(parser.parse_args())
    languages = given["languages"]
    given["steps"] = given["steps"] or _STEPS * len(languages)
    given["sources"] = given["sources"] if DEFAULT in languages else ()
    run = Run(**given)
    run.work.mkdir(parents=True, exist_ok=True)
    for name in ("finished", _MEETING):
        (run.work / name).unlink(missing_ok=True)
    prepare(run.work, run.languages)
    start(_process, run, run.processes)


if __name__ == "__main__":
    main()
