"""A dead receiver thread is reported to its owner. Dynamo is a fake."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry

from auricle.core.errors import ProcessFailed
from auricle.dynamo.events import EventSubscriber
from auricle.dynamo.refusals import Refusals
from auricle.protocol.control import Decisions

pytestmark = pytest.mark.unit


class Opened:
    """Accepts every event as one from the deployment."""

    def open(self, payload: bytes) -> bytes:
        return payload


class Events:
    """Returns queued items; raises queued errors."""

    def __init__(self, _endpoint: object) -> None:
        self.coming: queue.SimpleQueue[bytes | Exception | None] = queue.SimpleQueue()

    def recv(self) -> bytes | None:
        item = self.coming.get()
        if isinstance(item, Exception):
            raise item
        return item

    def shutdown(self) -> None:
        self.coming.put(None)


@pytest.fixture
def subscriber(monkeypatch: pytest.MonkeyPatch) -> Callable[[], EventSubscriber]:
    llm = ModuleType("dynamo.llm")
    llm.__dict__["FpmEventSubscriber"] = Events
    monkeypatch.setitem(sys.modules, "dynamo.llm", llm)
    refusals = Refusals(CollectorRegistry())
    return lambda: EventSubscriber("endpoint", Decisions, lambda _: None, Opened(), refusals)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "why"),
    [(RuntimeError("no memory"), "receiving events failed: no memory"), (None, "Dynamo ended")],
)
async def test_its_death_is_told(
    subscriber: Callable[[], EventSubscriber], item: Exception | None, why: str
) -> None:
    subject = subscriber()
    subject._events.coming.put(item)
    with pytest.raises(ProcessFailed, match=why):
        await subject.watch()


async def test_an_end_that_was_asked_for_is_no_failure(
    subscriber: Callable[[], EventSubscriber],
) -> None:
    subject = subscriber()
    subject._events.coming.put(b"garbage")  # logged and skipped
    subject.close()
    await subject.watch()
