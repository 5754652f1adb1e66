"""Server-sent events: the document again and again, until the client or the frontend goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import msgspec
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from auricle.errors import AuricleError
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import FrontDoor
from auricle.frontend.operations.documents import StreamEnd
from auricle.frontend.operations.observatory import Observatory
from auricle.tasks import first_failure_or

_GOING = StreamEnd("going_away", "this server is shutting down; connect again")


class EventStream(Response):
    """One client's stream.

    Nothing is queued: the next document is made when the last one was taken, so one who reads
    slowly gets fewer, and one who does not read is cut like any other client.
    """

    def __init__(
        self,
        observatory: Observatory,
        front_door: FrontDoor,
        check: Callable[[], None],
        session: str | None,
        every_seconds: float,
    ) -> None:
        """`check` raises once the client's key may no longer be used; `session` is the chosen."""
        super().__init__()
        self._observatory = observatory
        self._front_door = front_door
        self._check = check
        self._session = session
        self._every_seconds = every_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as an ASGI application. Raises RateLimited if too many look."""
        with self._observatory.viewer(), suppress(ClientGone):
            sending = asyncio.create_task(self._send(send))
            await first_failure_or(sending, [asyncio.create_task(_gone(receive))])

    async def _send(self, send: Send) -> None:
        fields = {"content-type": "text/event-stream", "cache-control": "no-store"}
        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._events()) as events:
            async for data in events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncGenerator[bytes, None]:
        woken = asyncio.Event()
        try:
            with self._front_door.interrupting(woken.set):
                while not self._front_door.leaving:
                    self._check()
                    yield _event("operations", await self._observatory.now(self._session))
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._every_seconds):
                            await woken.wait()
        except AuricleError as error:
            yield _event("end", StreamEnd(error.code, error.for_client))
        else:
            yield _event("end", _GOING)


def _event(name: str, data: msgspec.Struct) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientGone
