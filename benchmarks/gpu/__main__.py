"""The load that a GPU carries at the geometry of Qwen3-ASR, with random weights.

    python -m benchmarks.gpu --out FILE [--only PART …] [--minutes M] [--again]
                             [--seconds S] [--gpus N] [--config CONFIG]
    python -m benchmarks.gpu --out FILE --device cpu --quick

Each part takes at most ten minutes and is a process of its own. Its figures are in FILE as soon as
it ends; a part with figures is not run again (`--again` does), so that an interrupted run, or one
that `--minutes` has ended, continues with the same command. Needs `make setup-dev TARGET=gpu`. With
`--quick` the geometry is tiny, and the figures are meaningless: on a CPU this tests the program.
METRICS.md defines the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu.busy import gpu_names
from benchmarks.gpu.found import Task
from benchmarks.gpu.part import PartFailed, run
from benchmarks.gpu.parts import COMPARED, PARTS
from benchmarks.gpu.results import Results
from benchmarks.harness import end_with_signals, environment, new_parser, note

_MOST_SECONDS = 600.0  # of a part


def main(words: Sequence[str] | None = None) -> None:
    """Run the parts of a command line. Exits with 1 if a part failed."""
    end_with_signals()
    arguments, results = _parsed(words)
    wanted = arguments.only or [*PARTS]
    chosen = [p for p in PARTS if p in wanted and (arguments.again or not results.done(p))]
    for part in wanted:
        if part not in chosen:
            note(f"{part} has its figures; --again measures them again")
    if any(part in COMPARED for part in chosen) and not results.done("ceilings"):
        chosen = list(dict.fromkeys(("ceilings", *chosen)))
    failed = _run(chosen, results, arguments)
    print("\n".join(results.lines()))
    sys.exit(failed)


def _parsed(words: Sequence[str] | None) -> tuple[argparse.Namespace, Results]:
    parser = new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="only whether everything runs")
    parser.add_argument("--only", metavar="PART", nargs="+", choices=[*PARTS])
    parser.add_argument("--again", action="store_true", help="also parts that have their figures")
    parser.add_argument("--minutes", type=float, help="begin no part that may take longer")
    parser.add_argument("--seconds", type=float, help="of one measurement, instead of 4")
    parser.add_argument("--gpus", type=int, default=1, help="of the pools of `streams`")
    parser.add_argument("--config", type=Path, help="of the pools of `streams`")
    arguments = parser.parse_args(words)
    if arguments.device == "cpu" and not arguments.quick:
        parser.error("--device cpu needs --quick: the published geometry would take a CPU hours")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device was found; --device cpu --quick tries the program without one")
    if arguments.seconds is not None and arguments.seconds <= 0:
        parser.error("--seconds must be above 0")
    if arguments.gpus < 1:
        parser.error("--gpus must be at least 1")
    if arguments.config and not arguments.config.is_file():
        parser.error(f"--config: no such file: {arguments.config}")
    try:
        results = Results(arguments.out, device=arguments.device, quick=arguments.quick)
    except ValueError as error:
        parser.error(f"--out: {error}")
    return arguments, results


def _run(chosen: Sequence[str], results: Results, arguments: argparse.Namespace) -> bool:
    """Run the parts one after the other; return whether one of them failed."""
    began, failed = time.monotonic(), False
    where = environment() | {"gpus": ", ".join(gpu_names()) or "none"}
    config = str(arguments.config.resolve()) if arguments.config else ""
    for part in chosen:
        expected = PARTS[part].minutes
        if arguments.minutes is not None and _minutes(began) + expected > arguments.minutes:
            note(f"{part} is left out: it may take {expected:g} minutes")
            continue
        if part in COMPARED and not results.done("ceilings"):
            note(f"{part} is left out: its ceilings were not measured")
            continue
        task = Task(
            part, arguments.device, arguments.quick, arguments.gpus, config, arguments.seconds,
            results.figures_of("ceilings"),
        )  # fmt: skip
        note(f"{part} …")
        start = time.monotonic()
        try:
            found = run(task, _MOST_SECONDS)
        except PartFailed as error:
            failed = True
            results.failed(part, str(error), where)
            note(f"{part} failed: {error}")
        else:
            seconds = time.monotonic() - start
            results.keep(part, found, seconds, where)
            note(f"{part} took {seconds:.0f} s")
    return failed


def _minutes(began: float) -> float:
    return (time.monotonic() - began) / 60


if __name__ == "__main__":
    main()
