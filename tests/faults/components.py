"""The processes of a graph that tests disturb."""

from __future__ import annotations

from auricle_testing.launcher import Launcher
from auricle_testing.server import READY_SECONDS, Server, eventually


async def whole(disturbed: Server) -> None:
    """Wait until there is one process of each component."""
    launcher = Launcher(disturbed)
    components = ("EncodeWorker", "PdWorker", "Processor", "Frontend")
    for component in components:
        launcher.scale(component, 1)  # a failed test may have left two
    for component in components:
        await eventually(lambda name=component: launcher.settled(name, 1), READY_SECONDS)
