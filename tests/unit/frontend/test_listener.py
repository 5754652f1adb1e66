"""The frontend's listening socket."""

import asyncio
import socket

import pytest

from auricle.frontend.main import listen

pytestmark = pytest.mark.unit


async def test_answers_are_sent_at_once() -> None:
    """Nagle's algorithm would delay small answers by 40 ms."""
    listener = listen("127.0.0.1", 0)
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = writer.get_extra_info("socket")
        accepted.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(serve, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted
        writer.close()


def test_a_taken_port_says_so() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(SystemExit, match="cannot listen on"):
            listen("127.0.0.1", taken.getsockname()[1])
