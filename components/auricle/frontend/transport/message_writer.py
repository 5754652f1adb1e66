"""Sends one session's messages in order, up to the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.websockets import ClientSocket


class MessageWriter:
    """The messages of one session, whichever of its tasks they come from."""

    def __init__(self, socket: ClientSocket) -> None:
        self._socket = socket
        self._sending = asyncio.Lock()
        self._finished = False  # the last message is on its way; the client may leave

    async def write(self, made: Callable[[], Iterable[str]]) -> None:
        """Send the messages that `made` makes once those before are sent; none after the last."""
        async with self._sending:
            if self._finished:
                return
            for text in made():
                await self._socket.send(text)

    async def write_last(self, made: Callable[[], Iterable[str]]) -> None:
        """Send the last messages: a client that leaves once it has them has not left early."""
        async with self._sending:
            self._finished = True
            try:
                for text in made():
                    await self._socket.send(text)
            except ClientDisconnected:
                self._finished = False
                raise

    @contextmanager
    def may_leave(self) -> Iterator[None]:
        """Suppress ClientDisconnected of the block if the client had received everything."""
        try:
            yield
        except ClientDisconnected:
            if not self._finished:
                raise
