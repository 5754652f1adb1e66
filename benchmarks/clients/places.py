"""A graph with all protocols, and their addresses."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from auricle_testing.server import free_port, serving
from auricle_testing.services import Nats

# The protocol's cost: the frontend terminates it, the processor is the same for all.
_COUNTED = ("Frontend", "Processor")


@dataclass(frozen=True)
class Places:
    """Addresses of one server, and its processes that are counted."""

    url: str
    grpc: str
    wyoming: int
    audiosocket: int
    bus: Nats
    processes: tuple[psutil.Process, ...]

    @property
    def socket(self) -> str:
        """The address for WebSockets."""
        return self.url.replace("http", "ws", 1)

    def cpu_seconds(self) -> float:
        """CPU of frontend and processor so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)


@contextmanager
def places() -> Iterator[Places]:
    """Run the graph with the bundled model until the block ends."""
    grpc, wyoming, audiosocket = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        bus = Nats(Path(directory))
        bus.start()
        try:
            with serving(
                f"--Frontend.grpc_port={grpc}",
                f"--Frontend.wyoming_port={wyoming}",
                f"--Frontend.audiosocket_port={audiosocket}",
                f"--Frontend.nats_server={bus.address}",
            ) as server:
                yield Places(
                    server.url,
                    f"127.0.0.1:{grpc}",
                    wyoming,
                    audiosocket,
                    bus,
                    tuple(server.component(name) for name in _COUNTED),
                )
        finally:
            bus.end(signal.SIGTERM)
