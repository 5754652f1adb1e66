"""Findings, and the names of processes in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auricle.protocol.diagnosis import Description, Diagnosis, ProcessAnswer, TimedRead

_TITLES = {
    "frontend": "frontend",
    "processor": "processor",
    "encode_worker": "encode worker",
    "pd_worker": "PD worker",
    "align_encode_worker": "align encode worker",
    "align_worker": "align worker",
    "diarize_worker": "diarize worker",
    "translate_worker": "translate worker",
    "planner": "planner",
}
# Longer than a pass of an encoder or engine that is merely busy.
SILENT_SECONDS = 5.0
# They serve a checkpoint of their own, and sessions without words do not need them.
ALIGNERS = ("align_encode_worker", "align_worker")
DIARIZERS = ("diarize_worker",)  # the same, of speakers
TRANSLATORS = ("translate_worker",)  # and of translations


@dataclass(frozen=True)
class Finding:
    """Three sentences. If not `wrong` it is a notice: good to know, nothing to mend."""

    what: str
    why: str
    remedy: str
    wrong: bool = True


@dataclass(frozen=True)
class NamedProcess:
    """A process of the diagnosis and its name, such as `encode worker 2 (host-a, pid 41)`."""

    name: str
    answer: ProcessAnswer


class Processes:
    """The processes of a diagnosis, numbered by component."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        counted: Counter[str] = Counter()
        self._all: list[NamedProcess] = []
        for answer in diagnosis.processes:
            counted[answer.component] += 1
            self._all.append(NamedProcess(_name(answer, counted[answer.component]), answer))
        self._names = {(p.answer.component, p.answer.instance): p.name for p in self._all}

    def __iter__(self) -> Iterator[NamedProcess]:
        return iter(self._all)

    def described(self) -> Iterator[tuple[NamedProcess, Description]]:
        """Yield the processes that answered, with their descriptions."""
        for process in self._all:
            if process.answer.description is not None:
                yield process, process.answer.description

    def read_by(self, reader: Description) -> Iterator[tuple[NamedProcess, Description, TimedRead]]:
        """Yield the processes from which `reader` has timed reads, with their descriptions."""
        owners = {
            transfers.agent: (process, said)
            for process, said in self.described()
            if (transfers := said.parts.transfers) is not None and transfers.agent
        }
        for read in reader.parts.timed_reads:
            if read.agent in owners:
                yield *owners[read.agent], read

    def name(self, component: str, instance: str) -> str:
        return self._names.get((component, instance), f"{title(component)} {instance}")


def title(component: str) -> str:
    return _TITLES.get(component, component)


def listed(names: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _name(answer: ProcessAnswer, number: int) -> str:
    description = answer.description
    where = (
        f"instance {answer.instance}"
        if description is None
        else f"{description.host}, pid {description.pid}"
    )
    return f"{title(answer.component)} {number} ({where})"
