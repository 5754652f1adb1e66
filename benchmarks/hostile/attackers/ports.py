"""Bytes for TCP ports, HTTP requests included, and gRPC calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from benchmarks.hostile.attackers import wire
from benchmarks.hostile.attackers.wire import PATIENCE, Hung, Target, Wire
from benchmarks.hostile.inputs import Call, Leaving, Post, Stream
from benchmarks.hostile.oracle import Outcome, Verdict, of_answers, of_error, of_wyoming
from benchmarks.hostile.strategies.http import KEY, upload


def head(target: Target, post: Post, size: int | None = None) -> bytes:
    """The head of a request with a body, whose Content-Length may be wrong."""
    size = len(post.body) if size is None else size
    return (
        (
            f"POST {post.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Authorization: Bearer {target.key}\r\nContent-Length: {size}\r\nContent-Type: "
        ).encode()
        + post.content_type
        + b"\r\n\r\n"
    )


async def stream(target: Target, sent: Stream) -> Outcome:
    """Send the pieces, and judge the answer, if there is one, by the protocol of the port."""
    connection = await Wire.open(target.place(sent.port, sent.which))
    try:
        for piece in sent.pieces:
            await connection.send(piece.replace(KEY, target.key.encode()))
        if sent.port in ("ports", "grpc"):  # they may keep a connection until the client leaves
            with suppress(Hung):
                await connection.receive(PATIENCE)
            return Outcome(Verdict.ANSWERED if connection.unread else Verdict.WAITED)
        said = await connection.rest(PATIENCE)
    finally:
        connection.close(abrupt=sent.port == "http")
    if not said:
        return Outcome(Verdict.CLOSED)
    if sent.port == "wyoming":
        return of_wyoming(said)
    # AudioSocket can only hang up, and servers inside the graph reject HTTP/2 in its own words.
    if sent.port == "audiosocket" or (sent.port == "servers" and not said.startswith(b"HTTP/")):
        return Outcome(Verdict.REFUSED, repr(said[:40]))
    return of_answers(said)


async def post(target: Target, sent: Post) -> Outcome:
    """Send a request with a body, and judge the answer, which is due."""
    connection = await Wire.open(target.place("http"))
    try:
        await connection.send(head(target, sent) + sent.body)
        said = await connection.rest()
        return of_answers(said) if said else Outcome(Verdict.FAILED, "closed without an answer")
    finally:
        connection.close()


async def leave(target: Target, how: Leaving) -> Outcome:
    """Request a streamed transcription, and leave at the given point."""
    data = await asyncio.to_thread(Path(target.audio).read_bytes)
    form = upload(data, "x.flac", model=target.model, stream="true")
    connection = await Wire.open(target.place("http"))
    try:
        await connection.send(head(target, form) + form.body[: int(how.body * len(form.body))])
        await asyncio.sleep(how.seconds)
        # Between two events of a stream a part may take its time.
        with suppress(Hung):
            while connection.unread.count(b"\n\n") < how.events and await connection.receive():
                pass
        return Outcome(Verdict.CLOSED, f"{len(connection.unread)} bytes of answer")
    finally:
        connection.close(abrupt=how.abrupt)


# The client's own words for a call that was refused before all of it was written.
_CUT_SHORT = "Internal error from Core"
_FAILED = frozenset(
    getattr(grpc.StatusCode, name) for name in ("INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE")
)


class Rpc:
    """A connection to the gRPC port."""

    def __init__(self, target: Target) -> None:
        self._key = target.key
        self._channel = grpc.aio.insecure_channel(f"{target.host}:{target.grpc_port}")

    async def call(self, sent: Call) -> Outcome:
        """Make the call, and judge its status."""
        metadata = [("authorization", f"Bearer {self._key}"), *sent.metadata]
        call = self._channel.stream_stream(sent.method)(metadata=metadata)
        try:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
                for message in sent.messages:
                    await call.write(message)
                if sent.ends:
                    await call.done_writing()
            async with asyncio.timeout(wire.ANSWER_SECONDS if sent.ends else PATIENCE):
                with suppress(grpc.aio.AioRpcError):
                    while await call.read() is not grpc.aio.EOF:
                        pass
            return await _judged(call)
        except TimeoutError:
            if sent.ends:
                raise Hung("the call does not end") from None
            return Outcome(Verdict.WAITED)
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


async def _judged(call: Any) -> Outcome:
    code, said = await call.code(), str(await call.details() or "")
    detail = f"{code.name} {said[:200]}"
    if code is grpc.StatusCode.OK:
        return Outcome(Verdict.ANSWERED, detail)
    trailers = await call.trailing_metadata() or ()
    busy = any(name == "retry-after" for name, _ in trailers)
    failed = code in _FAILED and said != _CUT_SHORT
    return of_error(said.encode(), detail, failed=failed, busy=busy)
