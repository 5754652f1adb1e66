"""What a session tells its client: in one order, nothing after the last message."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from auricle.frontend.transport.client_gone import ClientGone
from auricle.frontend.transport.message_writer import Telling

pytestmark = pytest.mark.unit


class Socket:
    """A client's socket, which takes its time; the client is gone once it has `most` messages."""

    def __init__(self, most: int = 100) -> None:
        self.told: list[str] = []
        self._most = most

    async def send(self, text: str) -> None:
        await asyncio.sleep(0)
        if len(self.told) >= self._most:
            raise ClientGone
        self.told.append(text)


def telling(socket: Socket) -> Telling:
    return Telling(cast(Any, socket))


async def test_messages_are_made_once_those_before_are_sent() -> None:
    socket = Socket()
    subject = telling(socket)

    def made(name: str) -> list[str]:
        return [f"{name} after {len(socket.told)}", f"{name} too"]

    await asyncio.gather(subject.tell(lambda: made("a")), subject.tell(lambda: made("b")))
    assert socket.told == ["a after 0", "a too", "b after 2", "b too"]


async def test_nothing_follows_the_last_message() -> None:
    socket = Socket()
    subject = telling(socket)
    last = asyncio.create_task(subject.tell_last(lambda: ["last"]))
    await asyncio.sleep(0)
    await subject.tell(lambda: ["late"])
    await last
    assert socket.told == ["last"]


async def test_a_client_that_was_told_all_may_leave() -> None:
    subject = telling(Socket())
    await subject.tell_last(lambda: ["last"])
    with subject.may_leave():
        raise ClientGone


async def test_a_client_that_leaves_before_the_last_message_has_left_early() -> None:
    subject = telling(Socket(most=1))
    with pytest.raises(ClientGone):
        await subject.tell_last(lambda: ["one of the last", "last"])
    with pytest.raises(ClientGone), subject.may_leave():
        raise ClientGone
