"""The frontend's requests for admission, and its releases."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from auricle.core.errors import Overloaded, RateLimited, WorkerUnavailable
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.slots import SessionSlot, SessionSlots
from auricle.load.fairness import SILENT_SECONDS
from auricle.protocol.sessions import ADMISSION_SECONDS, AdmitSession, Admitted, WithdrawAdmission

pytestmark = pytest.mark.unit


def slot() -> SessionSlot:
    taken = SessionSlots(1).take("client")
    assert taken is not None
    return taken


class Processors:
    """One processor that answers `admit` with `answer`, and records its requests."""

    def __init__(self, answer: Admitted | Exception) -> None:
        self.answer = answer
        self.asked: list[Any] = []
        self.gone = False
        self.now = 100.0

    def admission(self) -> SessionAdmission:
        endpoints = ProcessorEndpoints(*[self] * 6)  # type: ignore[arg-type]
        return SessionAdmission(endpoints, 4, lambda: self.now)

    async def instances(self) -> list[int]:
        return [7]

    async def call(self, message: Any, _reply: Any, instance: int, _seconds: float) -> Any:
        assert instance == 7
        self.asked.append(message)
        if self.gone:
            raise WorkerUnavailable("gone")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_what_was_admitted_is_given_back_when_the_client_leaves_at_once() -> None:
    processors = Processors(Admitted())
    async with processors.admission().admitted("tenant", "s", slot(), priority=1):
        (asked,) = processors.asked
        assert isinstance(asked, AdmitSession)
        assert (asked.tenant, asked.admission, asked.priority) == ("tenant", "s", 1)
    assert processors.asked[1:] == [WithdrawAdmission("tenant", "s")]


async def test_an_admission_that_counts_no_longer_is_not_given_back() -> None:
    """The processor may have disappeared meanwhile."""
    processors = Processors(Admitted())
    async with processors.admission().admitted("tenant", "s", slot()):
        processors.now += ADMISSION_SECONDS
    assert len(processors.asked) == 1


async def test_a_processor_that_is_gone_when_it_is_given_back_disturbs_nobody() -> None:
    processors = Processors(Admitted())
    async with processors.admission().admitted("tenant", "s", slot()):
        processors.gone = True
    assert len(processors.asked) == 2


async def test_a_refused_client_has_nothing_to_give_back() -> None:
    processors = Processors(Overloaded("full", 5.0))
    with pytest.raises(Overloaded, match="full"):
        async with processors.admission().admitted("tenant", "s", slot()):
            pytest.fail("was admitted")
    assert len(processors.asked) == 1


async def test_a_tenant_gets_its_share_of_the_slots_where_there_are_others() -> None:
    admission = Processors(Admitted()).admission()
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(admission.slot("busy", shared=True))
        with (
            pytest.raises(RateLimited, match="3 live sessions open, its share of the 4"),
            admission.slot("busy", shared=True),
        ):
            pytest.fail("has all")
        held.enter_context(admission.slot("busy"))


async def test_processors_are_asked_once_the_session_that_makes_room_has_ended() -> None:
    processors = Processors(Admitted())
    admission = processors.admission()
    with ExitStack() as held:
        idle = [held.enter_context(admission.slot("idle")) for _ in range(4)]
        for one in idle:
            one.confirm()
        processors.now += SILENT_SECONDS
        slot = held.enter_context(admission.slot("other"))

        async def admitted() -> None:
            async with admission.admitted("other", "s", slot):
                pass

        asking = asyncio.create_task(admitted())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not processors.asked
        idle[0].leave()
        await asking
        assert processors.asked


def test_a_tenant_has_others_beside_it_where_another_key_may_be_used() -> None:
    keys = [new_key("acme")[1], new_key("globex")[1].model_copy(update={"max_sessions": 9})]
    access = Access(KeyRing(keys))
    assert [access.keyless(key.name, "live").others for key in keys] == [True, True]
    off = {"enabled": False}
    access.replace([keys[0], keys[1].model_copy(update=off)])
    assert not access.keyless("acme", "live").others
    assert not Access(KeyRing(None)).keyless(None, "live").others
