"""The processes of a graph on this machine: names, commands, environments, states."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auricle.launcher.back_off import BackOff
from auricle.settings import CommonSettings

# A process that hangs but is not frozen ends itself, and says where it hung.
_OWN_END_SECONDS = 2.0


@dataclass
class Process:
    """One process and its state; it is number `number` (from 1) of its component.

    `name` is shown in logs. Draining may take up to `drain_seconds`. It is killed if
    it has answered before and does not for `liveness_seconds`. `leaving` is set once it is
    asked to drain. `started_at` and `start_again_at` are in seconds of the monotonic clock.
    """

    name: str
    component: str
    command: list[str]
    environment: dict[str, str]
    number: int = 1
    drain_seconds: float = 0.0
    liveness_seconds: float = 15.0
    statuses: list[str] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: bool = False
    back_off: BackOff = field(default_factory=BackOff)
    started_at: float = 0.0
    start_seconds: float = 0.0  # from the last start until it was ready
    ready_at: float | None = None  # since its last start; None: not yet
    hung_at: float | None = None  # its last answer, if it is ended because it hangs
    start_again_at: float | None = None
    alive_at: float | None = None  # when it last said that it answers; None: never yet
    exit_code: int | None = None  # of the last exit; a signal's number negated

    def hangs(self, now: float) -> bool:
        """Whether it has not answered for `liveness_seconds`, and has not ended itself since."""
        if self.alive_at is None:
            return False
        return now - self.alive_at > self.liveness_seconds + _OWN_END_SECONDS

    def healthy_seconds(self, now: float) -> float:
        """For how long it was ready, and answered, until it ended."""
        if self.ready_at is None:
            return 0.0
        return max(0.0, (now if self.hung_at is None else self.hung_at) - self.ready_at)

    @property
    def end(self) -> str:
        """How the process last ended, as text for a log line."""
        if self.exit_code is None:
            return "ended"
        if self.exit_code < 0:
            return f"ended by signal {-self.exit_code} ({_signal_name(-self.exit_code)})"
        return f"ended with exit code {self.exit_code}"


def _signal_name(number: int) -> str:
    known = {s.value: s.name for s in signal.Signals}
    return known.get(number, "unknown")


class MakesProcesses(Protocol):
    """The interface with which a supervisor makes additional processes."""

    @property
    def components(self) -> tuple[str, ...]:
        """The names of all components of the graph, including those with 0 replicas."""
        ...

    def make(self, component: str, number: int) -> Process:
        """Return process number `number` (from 1) of a component."""
        ...


class ProcessFactory:
    """Makes the processes of components from the graph's validated settings."""

    def __init__(
        self,
        settings: Mapping[str, CommonSettings],
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """`arguments` are the config file and overrides; every process gets `environment`."""
        self._settings = settings
        self._arguments = list(arguments)
        self._environment = dict(environment)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of all components of the graph, including those with 0 replicas."""
        return tuple(self._settings)

    def make(self, component: str, number: int) -> Process:
        """Return process number `number` (from 1); an only replica has the component's name."""
        settings = self._settings[component]
        arguments = list(self._arguments)
        if settings.system_port and number > 1:
            port = settings.system_port + number - 1
            arguments.append(f"--{component}.system_port={port}")
        only = settings.replicas == 1 and number == 1
        return Process(
            name=component if only else f"{component}-{number}",
            component=component,
            command=component_command(component, arguments),
            environment=self._environment | _placement(settings.gpus, number),
            number=number,
            drain_seconds=settings.drain_seconds,
            liveness_seconds=settings.liveness_seconds,
        )


def _placement(gpus: Sequence[int], number: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": str(gpus[(number - 1) % len(gpus)])} if gpus else {}


def component_command(component: str, arguments: list[str]) -> list[str]:
    """Return the command line of one component's process."""
    return [sys.executable, "-m", "auricle", "component", component, *arguments]
