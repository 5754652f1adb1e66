"""The processes of a graph on this machine: names, commands, environments, states, restarts."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auricle.config.settings import CommonSettings
from auricle.launcher.child import Child
from auricle.launcher.gpus import gpu_of

# From its start until a process is ready, for each process that loads on its GPU: one after the
# other, they load weights and record their passes.
READY_SECONDS = 300.0
# A process that hangs but is not frozen ends itself, and logs where it hung.
_OWN_END_SECONDS = 2.0

# Before the first, second, … restart in a row. The first is at once, as in Kubernetes: most deaths
# are single ones, and sessions wait. The longest is short, because the operator who has fixed the
# cause waits for it.
_PAUSES_SECONDS = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)
# As long as the window in which systemd counts starts. What dies of its settings, its port or its
# checkpoint does so sooner; Kubernetes' 10 minutes would punish deaths that have nothing in common.
_HEALTHY_SECONDS = 10.0


@dataclass
class BackOff:
    """Counts consecutive deaths of one process; a healthy period resets the count."""

    deaths: int = 0

    def pause(self, healthy_seconds: float, start_seconds: float) -> float:
        """The process has died; return for how many seconds it stays down.

        Before, it was ready and answered for `healthy_seconds`, and took `start_seconds` to get
        there. Earlier deaths are forgotten after 10 s of health, or after as long as the start
        took: so a process that keeps dying spends at most half of its time on starts.
        """
        if healthy_seconds >= max(_HEALTHY_SECONDS, start_seconds):
            self.deaths = 0
        pause = _PAUSES_SECONDS[min(self.deaths, len(_PAUSES_SECONDS) - 1)]
        self.deaths += 1
        return pause


@dataclass
class Process:
    """One process and its state; it is number `number` (from 1) of its component.

    At the start of the graph it must be ready within `ready_seconds`.
    `name` is shown in logs. Draining may take up to `drain_seconds`. It is killed if
    it has answered before and does not for `liveness_seconds`. Times that end in `_at` are in
    seconds of the monotonic clock.
    """

    name: str
    component: str
    command: list[str]
    environment: dict[str, str]
    number: int = 1
    drain_seconds: float = 0.0
    liveness_seconds: float = 15.0
    ready_seconds: float = READY_SECONDS
    back_off: BackOff = field(default_factory=BackOff)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    child: Child | None = None  # its present run
    runner: asyncio.Task[None] | None = None  # runs it, again and again; None: not yet
    stopping: asyncio.Task[None] | None = None  # stops it for good; None: it shall run
    started_at: float = 0.0
    start_seconds: float = 0.0  # from the last start until it was ready
    ready_at: float | None = None  # since its last start; None: not yet
    hung_at: float | None = None  # its last answer, if it is ended because it hangs
    alive_at: float | None = None  # when it last said that it answers; None: never yet
    end: str = ""  # how it last ended, as text for a log line

    @property
    def leaving(self) -> bool:
        """Whether it is being stopped for good, or has been."""
        return self.stopping is not None

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


def how_ended(exit_code: int) -> str:
    """Return as text for a log line how a process ended; a signal's number is negated."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {s.value: s.name for s in signal.Signals}
    return f"ended by signal {-exit_code} ({names.get(-exit_code, 'unknown')})"


class ProcessFactory:
    """Makes the processes of components from the graph's validated settings."""

    def __init__(
        self,
        settings: Mapping[str, CommonSettings],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        sharing: Mapping[int, int] | None = None,
    ) -> None:
        """`arguments` are the config file and overrides; every process gets `environment`.

        `sharing` is the number of processes on each of the machine's GPUs.
        """
        self._sharing = Counter(sharing or {})
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
            ready_seconds=READY_SECONDS * max(1, self._sharers(settings, number)),
        )

    def _sharers(self, settings: CommonSettings, number: int) -> int:
        gpu = gpu_of(settings, number)
        return 0 if gpu is None else self._sharing[gpu]


def _placement(gpus: Sequence[int], number: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": str(gpus[(number - 1) % len(gpus)])} if gpus else {}


def component_command(component: str, arguments: list[str]) -> list[str]:
    """Return the command line of one component's process."""
    return [sys.executable, "-m", "auricle", "component", component, *arguments]
