"""Train the demo aligner for some minutes of CPU time; resumes from its last checkpoint.

    python -m models.training.align.train --work build/aligner --minutes 36 --processes 2

Training begins with the demo recogniser's encoder and text layers, which recognise the words, and
adds their times: first it trains the encoder alone (`hearing`), then the text model alone. With
`--start models/demo-aligner` the text model of an aligner continues to learn, with long clips.
Minutes are CPU time of one process, so a busy machine takes longer but trains the same. The
checkpoint stores the minutes spent, and the schedule (learning rate, longest clip) resumes from
there. While the file named by --pause exists, training waits.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing

from models.training.align.examples import ClipMaker
from models.training.align.model import Aligner
from models.training.align.probe import probe
from models.training.align.prompts import TIMESTAMP
from models.training.align.trainer import Trainer
from models.training.corpus import Corpus
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

_LONGEST_PAUSE = timedelta(hours=6)
_SAVE_EVERY, _PROBE_EVERY, _SHOW_EVERY = 100, 300, 25


@dataclass(frozen=True)
class Run:
    """Command-line options, which every process receives."""

    work: Path
    start: Path
    corpus: Path
    minutes: float
    hearing: float
    batch_seconds: float
    processes: int
    pause: Path | None


def _process(rank: int, run: Run) -> None:
    """One of the training processes, each with its own clips and one thread."""
    torch.set_num_threads(1)
    meeting = run.work.absolute() / "meeting"
    distributed.init_process_group(
        "gloo",
        init_method=meeting.as_uri(),
        rank=rank,
        world_size=run.processes,
        timeout=_LONGEST_PAUSE,
    )
    trainer = Trainer(run.work, run.start, run.minutes, run.hearing, seed=rank)
    trainer.resume()
    seed = trainer.step * run.processes + rank
    maker = ClipMaker(Corpus(run.corpus, "train", loaded=True), seed=seed)
    judged = probe(run.corpus, trainer.tokenizer) if rank == 0 else None
    sums: dict[str, list[float]] = defaultdict(list)
    while not trainer.over:
        if run.pause and run.pause.exists():
            _wait(trainer, run.pause, save=rank == 0)
        losses = trainer.train_step(maker, run.batch_seconds / run.processes)
        kind = "hear-" if "edges" in losses else "" if "bins" in losses else "lesson-"
        for name, loss in losses.items():
            sums[kind + name].append(loss)
        if judged is not None:
            _tell(trainer, sums, judged)
    if judged is not None:
        trainer.save()
    distributed.destroy_process_group()


def _wait(trainer: Trainer, sign: Path, *, save: bool) -> None:
    """Wait until the file is gone. After `save`, ending the training meanwhile loses nothing."""
    if save:
        trainer.save()
    while sign.exists():
        time.sleep(5)


def _tell(trainer: Trainer, sums: dict[str, list[float]], judged: Callable[[Aligner], str]) -> None:
    """Print losses and errors and save checkpoints, each at its interval."""
    if trainer.step % _SHOW_EVERY == 0:
        shown = " ".join(f"{name} {np.mean(some):.2f}" for name, some in sums.items())
        print(f"{trainer.step} {trainer.spent / 60:.1f} min {shown}", flush=True)
        sums.clear()
    if trainer.step % _SAVE_EVERY == 0:
        trainer.save()
    if not trainer.hears and trainer.step % _PROBE_EVERY == 0:
        print(f"{trainer.step} errors (ms) {judged(trainer.model)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--start", type=Path, default=Path("models/demo"))
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--minutes", type=float, default=36.0)
    parser.add_argument("--hearing", type=float, default=10.0, help="minutes, the encoder's")
    parser.add_argument("--batch-seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pause", type=Path, help="wait while this file exists")
    run = Run(**vars(parser.parse_args()))
    run.work.mkdir(parents=True, exist_ok=True)
    write_tokenizer(run.work, special=(*SPECIAL_TOKENS, TIMESTAMP))
    (run.work / "meeting").unlink(missing_ok=True)
    # Otherwise the child processes would outlive this one after SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    multiprocessing.spawn(_process, (run,), nprocs=run.processes, daemon=True)


if __name__ == "__main__":
    main()
