"""A frontend with Deepgram's protocol, and its client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.core.errors import DeadlineExceeded
from auricle.frontend.exporters.transcripts import NoBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.deepgram.live import listen_protocol
from auricle.frontend.transport.access.keys import ANYONE
from auricle_testing.fakes import InstantDetector, Processor, SteadyPulses, admission
from tests.fakes.front import Front, last_words
from tests.fakes.place import HeldPlace

AUDIO = "encoding=linear16&sample_rate=16000"
FINALIZE, CLOSE = '{"type": "Finalize"}', '{"type": "CloseStream"}'
LOUD = np.full(16_000, 8_000, "<i2").tobytes()
QUIET = bytes(32_000)


class Client(HeldPlace):
    """One connection's client: it sends these messages and then only reads."""

    session, trace = "sess_1", ""
    sessions = ("sess_1", "sess_1.1")
    client = SimpleNamespace(key=ANYONE, tenant="default")

    def __init__(self, query: str, *messages: str | bytes | float) -> None:
        """A number is a time in seconds in which it sends nothing."""
        super().__init__()
        self.query_string = query
        self._messages = list(messages)
        self.sent: list[dict[str, Any]] = []
        self.charged = 0.0
        self.went_at: int | None = None

    async def receive(
        self, seconds: float, what: str, _enough: int = 0
    ) -> tuple[str | None, bytes]:
        for _ in range(20):  # all messages in flight arrive
            await asyncio.sleep(0)
        while self._messages and isinstance(nothing := self._messages[0], float):
            await asyncio.sleep(nothing)
            del self._messages[0]
        if not self._messages:
            raise DeadlineExceeded(f"{what} took longer than {seconds:g} s")
        message = self._messages.pop(0)
        return (message, b"") if isinstance(message, str) else (None, message)

    async def read_up(self) -> None:
        await asyncio.Event().wait()

    async def charge(self, seconds: float) -> None:
        self.charged += seconds

    def end_early(self, samples: int) -> None:
        self.went_at = samples

    async def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.sent]


async def served(
    *messages: str | bytes | float,
    query: str = AUDIO,
    draining: bool = False,
    protocol: Callable[[Frontend], Any] = listen_protocol,
    turns: Any = None,
    processor: Processor | None = None,
    **values: Any,
) -> Client:
    """A client after the end of its session; see `Client` for its messages.

    `values` are settings of the frontend.
    """
    settings, endpoint = FrontendSettings(**values), cast(Any, processor or Processor())
    frontend = Frontend(
        settings,
        ("demo",),
        ProcessorEndpoints(*[endpoint] * 5, cast(Any, SteadyPulses())),
        admission(draining=draining),
        InstantDetector(),
        NoBus(),
        FrontendMetrics(CollectorRegistry(), settings),
        turns=turns,
    )
    client = Client(query, *messages)
    async with asyncio.timeout(60):
        await protocol(frontend).serve(cast(Any, client))
    return client


async def refusal(front: Front, path: str, **options: Any) -> tuple[int, dict[str, str]]:
    """The close code of a refused client, and the error in the only message before it."""
    async with front.connect(path, **options) as socket:
        said, code, _ = await last_words(socket)
    return code, json.loads(said)
