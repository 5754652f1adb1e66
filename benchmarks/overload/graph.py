"""The graph under overload: as delivered, with API keys, on a machine of changing speed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from auricle.frontend.transport.access.keys import new_key
from auricle_testing.server import AS_DELIVERED, Server, serving
from benchmarks.load.protocols import Target

# The tenant that floods, another one with the same rights, and one with a higher priority.
FLOOD, OTHER, FIRST = "flood", "other", "first"
_PRIORITIES = {FLOOD: "normal", OTHER: "normal", FIRST: "high"}


@dataclass(frozen=True)
class Graph:
    """A running graph and its tenants' keys."""

    server: Server
    keys: dict[str, str]

    def target(self, tenant: str, chunk_ms: int) -> Target:
        """Return the target of a client of the tenant."""
        return Target(self.server.url, "demo", chunk_ms, key=self.keys[tenant])

    @contextlib.contextmanager
    def on_one_core(self) -> Iterator[None]:
        """Confine all threads of the graph to one core until the block ends."""
        everywhere = os.sched_getaffinity(0)
        _confine(self.server, {min(everywhere)})
        try:
            yield
        finally:
            _confine(self.server, everywhere)

    def admitted(self) -> float:
        """Return the processor's current limit of speaking sessions."""
        return self.server.metric("Processor", "auricle_processor_sessions_admitted")


@contextlib.contextmanager
def graph_with_keys() -> Iterator[Graph]:
    """Run the graph with a key for each tenant until the block ends."""
    with tempfile.TemporaryDirectory(prefix="overload-") as folder:
        file, keys = Path(folder) / "keys.yaml", {}
        entries = []
        for tenant, priority in _PRIORITIES.items():
            keys[tenant], entry = new_key(tenant)
            entries.append(entry.model_dump(exclude_defaults=True, mode="json"))
            entries[-1]["priority"] = priority
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump({"keys": entries}))
        with serving(f"--Frontend.api_keys_file={file}", *AS_DELIVERED) as server:
            yield Graph(server, keys)


def _confine(server: Server, cores: set[int]) -> None:
    for process in server.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            for thread in process.threads():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, cores)
