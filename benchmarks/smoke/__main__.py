"""Every published command in its shortest form, one after the other.

    python -m benchmarks.smoke [--only WORD …]

Prints a table of results and durations, and exits with 1 if a command failed. The output of each
command is in build/smoke/. Figures of such runs are meaningless.
Needs `make setup-dev` and `make bench-env`.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auricle_testing.server import leaving_nothing, serving
from benchmarks.baselines.client import end
from benchmarks.harness import Benchmark, Run, UsageError, main
from benchmarks.markdown import table
from benchmarks.prepared import ROOT, checkpoint, corpus
from benchmarks.smoke.commands import SHORT, Short

_OUT = ROOT / "build/smoke"
_LINES_SHOWN = 15


@dataclass(frozen=True)
class Outcome:
    """`why` is the reason of a failure; empty if the command ran."""

    short: Short
    seconds: float
    why: str
    log: Path


def run_short(short: Short, log: Path, out: Path = _OUT) -> Outcome:
    """Run one command, whose processes have ended when this returns; its output is in the log."""
    began, why = time.monotonic(), ""
    try:
        with contextlib.ExitStack() as stack, log.open("w") as output:
            url = stack.enter_context(serving()).url if short.served else ""
            marked = stack.enter_context(leaving_nothing())
            why = _ended(_arguments(short, out, url), short.deadline_seconds, marked, output)
    except AssertionError as error:  # its server did not start or end, or processes were left
        why = why or str(error).partition("\n")[0]
    return Outcome(short, time.monotonic() - began, why, log)


def _arguments(short: Short, out: Path, url: str) -> list[str]:
    words = short.arguments.format(out=out).split()
    if words[0] != "make":
        words = [sys.executable, "-m", *words]
    return [*words, f"--url={url}"] if url else words


def _ended(command: list[str], seconds: float, environment: dict[str, str], output: IO[str]) -> str:
    """Return the reason if the command fails."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
    )
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:g} s"
    finally:
        end(process)
    return f"ended with status {status}" if status else ""


def _report(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.why:
            print(f"\n{outcome.short.arguments}\n{outcome.why}; the end of {outcome.log}:")
            lines = outcome.log.read_text(errors="replace").splitlines()
            print("\n".join(lines[-_LINES_SHOWN:]))
    print()
    rows = [
        [f"`{o.short.arguments}`", f"failed: {o.why}" if o.why else "ok", f"{o.seconds:.0f}"]
        for o in outcomes
    ]
    print("\n".join(table(["command", "result", "seconds"], rows)))


def _smoke(run: Run) -> None:
    wanted = run.arguments.only_words
    chosen = [s for s in SHORT if not wanted or any(w in s.arguments for w in wanted)]
    if not chosen:
        raise UsageError(f"no command contains {' or '.join(wanted)}")
    _OUT.mkdir(parents=True, exist_ok=True)
    corpus("seen")
    for size in ("60m", "3x", "10x"):
        checkpoint(size)
    outcomes: list[Outcome] = []
    for number, short in enumerate(chosen):
        print(f"{short.arguments} …", end=" ", flush=True)
        outcomes.append(run_short(short, _OUT / f"{number:02}-{_name(short)}.log"))
        print(f"{outcomes[-1].why or 'ok'}, {outcomes[-1].seconds:.0f} s", flush=True)
    _report(outcomes)
    sys.exit(any(outcome.why for outcome in outcomes))


def _name(short: Short) -> str:
    words = [w for w in short.arguments.split() if not w.startswith(("-", "{"))]
    return "-".join(words[:2]).replace("/", "-")


def _only(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", dest="only_words", help="words of commands"
    )


BENCHMARK = Benchmark(
    description=__doc__, parts={"commands": _smoke}, arguments=_only, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
