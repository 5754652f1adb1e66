"""A session's messages: in one order, none after the last one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.message_writer import MessageWriter

pytestmark = pytest.mark.unit


class Socket:
    """A slow client's socket; the client disconnects after `most` messages."""

    def __init__(self, most: int = 100) -> None:
        self.sent: list[str] = []
        self._most = most

    async def send(self, text: str) -> None:
        await asyncio.sleep(0)
        if len(self.sent) >= self._most:
            raise ClientDisconnected
        self.sent.append(text)


def writer(socket: Socket) -> MessageWriter:
    return MessageWriter(cast(Any, socket))


async def test_messages_are_made_once_those_before_are_sent() -> None:
    socket = Socket()
    subject = writer(socket)

    def made(name: str) -> list[str]:
        return [f"{name} after {len(socket.sent)}", f"{name} too"]

    await asyncio.gather(subject.write(lambda: made("a")), subject.write(lambda: made("b")))
    assert socket.sent == ["a after 0", "a too", "b after 2", "b too"]


async def test_nothing_follows_the_last_message() -> None:
    socket = Socket()
    subject = writer(socket)
    last = asyncio.create_task(subject.write_last(lambda: ["last"]))
    await asyncio.sleep(0)
    await subject.write(lambda: ["late"])
    await last
    assert socket.sent == ["last"]


async def test_a_client_that_was_told_all_may_leave() -> None:
    subject = writer(Socket())
    await subject.write_last(lambda: ["last"])
    with subject.may_leave():
        raise ClientDisconnected


async def test_a_client_that_leaves_before_the_last_message_has_left_early() -> None:
    subject = writer(Socket(most=1))
    with pytest.raises(ClientDisconnected):
        await subject.write_last(lambda: ["one of the last", "last"])
    with pytest.raises(ClientDisconnected), subject.may_leave():
        raise ClientDisconnected
