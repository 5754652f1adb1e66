"""The processes a graph is made of on this machine: names, commands, environments."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auricle.settings import CommonSettings


@dataclass
class Process:
    """One process to run, the `number`-th (from 1) of its component. `name` is shown.

    Told to drain, it may take `drain_seconds` to end.
    """

    name: str
    component: str
    command: list[str]
    environment: dict[str, str]
    number: int = 1
    drain_seconds: float = 0.0
    statuses: list[str] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: bool = False
    failures: int = 0
    started_at: float = 0.0
    start_seconds: float = 0.0  # until it was ready, the last time
    start_again_at: float | None = None


class MakesProcesses(Protocol):
    """Where a supervisor has the processes from that it was not started with."""

    @property
    def components(self) -> tuple[str, ...]:
        """All of the graph, those without a process included."""
        ...

    def make(self, component: str, number: int) -> Process:
        """The number-th process of a component."""
        ...


class ProcessFactory:
    """Makes the n-th process of a component, from the graph's validated settings."""

    def __init__(
        self,
        settings: Mapping[str, CommonSettings],
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """`arguments` name the config file and its overrides; `environment` is of all."""
        self._settings = settings
        self._arguments = list(arguments)
        self._environment = dict(environment)

    @property
    def components(self) -> tuple[str, ...]:
        """All of the graph, those without a process included."""
        return tuple(self._settings)

    def make(self, component: str, number: int) -> Process:
        """The first of a component that has one replica goes by the component's name."""
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
        )


def _placement(gpus: Sequence[int], number: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": str(gpus[(number - 1) % len(gpus)])} if gpus else {}


def component_command(component: str, arguments: list[str]) -> list[str]:
    """The command line of one component's process."""
    return [sys.executable, "-m", "auricle", "component", component, *arguments]
