"""Routes, and how a request that Dynamo delivers is opened, handled and answered."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import UnionType
from typing import Any

import msgspec

from auricle.errors import AuricleError, BadRequest, UntrustedCaller
from auricle.messages.refusal import Refusal
from auricle.process.logs import about
from auricle.runtime.cancellation import stream_until_stopped, until_stopped
from auricle.runtime.refusals import Refusals
from auricle.runtime.seals import Opener
from auricle.runtime.wire import sealed_from_wire, to_wire

log = logging.getLogger(__name__)

Unary = Callable[[Any], Awaitable[msgspec.Struct]]
Streamed = Callable[[Any], AsyncGenerator[msgspec.Struct, None]]


@dataclass(frozen=True)
class Route:
    """An endpoint of this process: its name, its request's type or types, and a handler.

    Handlers run on the event loop and are cancelled when their caller leaves, except `brief`
    ones, which end soon by themselves.
    """

    name: str
    request: type[msgspec.Struct] | UnionType
    unary: Unary | None = None
    streamed: Streamed | None = None
    brief: bool = False


def handler(
    route: Route, opener: Opener, refusals: Refusals
) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
    """Return a handler as Dynamo calls it: it opens the request and encodes the replies."""
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(route.request)
    kind = getattr(route.request, "__name__", str(route.request))

    async def handle(data: Any, context: Any) -> AsyncGenerator[Any, None]:
        ids: dict[str, str | None] = {}
        try:
            request = decoder.decode(opener.open(sealed_from_wire(data)))
            ids = {name: getattr(request, name, None) for name in ("session", "request")}
            if route.unary is not None:
                with about(**ids):
                    work = route.unary(request)
                    reply = await (work if route.brief else until_stopped(work, context))
                yield to_wire(reply)
            elif route.streamed is not None:
                with about(**ids):
                    replies = stream_until_stopped(route.streamed(request), context)
                async with aclosing(replies) as out:
                    async for message in out:
                        yield to_wire(message)
        except msgspec.DecodeError as error:
            log.warning("malformed %s: %s", kind, error)
            yield to_wire(Refusal(BadRequest.code, f"malformed {kind}"))
        except AuricleError as error:
            if isinstance(error, UntrustedCaller):
                refusals.add(route.name, error)
            refusal = Refusal(error.code, str(error), error.keys, error.retry_after_seconds)
            yield to_wire(refusal)
        except Exception:  # one failing request must not end the endpoint
            # What a library says may name files and hosts, so it is for the log of this process.
            log.exception("%s failed, session %s", route.name, ids.get("session"))
            yield to_wire(Refusal(AuricleError.code, f"{route.name} failed; see its worker's log"))

    return handle
