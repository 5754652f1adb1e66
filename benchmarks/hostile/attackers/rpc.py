"""Attacks on the gRPC port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc

from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import ANSWER_SECONDS, Address, Hung, Wire
from benchmarks.hostile.case import Case, Outcome, Verdict, leak

# How long a call that the client does not end is given to complain.
_PATIENCE = 0.15
# What the client itself says where a call was refused before all of it was written.
_CUT_SHORT = "Internal error from Core"
_FAILED = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)


async def calls(target: Target) -> AsyncGenerator[Callable[[Case], Awaitable[Outcome]], None]:
    """Yield an attacker whose calls share a connection."""
    address = f"{target.host}:{target.grpc_port}"
    async with grpc.aio.insecure_channel(address) as channel:
        yield partial(_attack, target, channel)


async def _attack(target: Target, channel: Any, case: Case) -> Outcome:
    if "raw" in case.data:
        return await _garbage(target, case.data["raw"])
    metadata = [("authorization", f"Bearer {target.key}"), *case.data["metadata"]]
    call = channel.stream_stream(case.data["method"])(metadata=metadata)
    try:
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            for message in case.data["messages"]:
                await call.write(message)
            if case.data["ends"]:
                await call.done_writing()
        ended = await _over(call, ANSWER_SECONDS if case.data["ends"] else _PATIENCE)
    finally:
        call.cancel()
    if not ended and case.data["ends"]:
        raise Hung("the call does not end")
    if not ended:
        return Outcome(Verdict.WAITED)
    return await _judged(call)


async def _over(call: Any, seconds: float) -> bool:
    """Read for at most that long; whether the call has ended."""
    try:
        async with asyncio.timeout(seconds):
            while await call.read() is not grpc.aio.EOF:
                pass
    except TimeoutError:
        return False
    except grpc.aio.AioRpcError:
        pass
    return True


async def _judged(call: Any) -> Outcome:
    code, said = await call.code(), str(await call.details() or "")
    detail = f"{code.name} {said[:200]}"
    if code is grpc.StatusCode.OK:
        return Outcome(Verdict.ANSWERED, detail)
    if any(name == "retry-after" for name, _ in await call.trailing_metadata() or ()):
        return Outcome(Verdict.BUSY, detail)
    if said == _CUT_SHORT:
        return Outcome(Verdict.REFUSED, detail)
    if code in _FAILED or code is grpc.StatusCode.UNAVAILABLE:
        return Outcome(Verdict.FAILED, detail)
    if found := leak(said.encode()):
        return Outcome(Verdict.LEAKED, found)
    return Outcome(Verdict.REFUSED, detail)


async def _garbage(target: Target, data: bytes) -> Outcome:
    """Send bytes to the port. It may await more, and keeps the connection until this side ends."""
    wire = await Wire.open(Address(target.host, target.grpc_port))
    try:
        await wire.send(data)
        await wire.glance(_PATIENCE)
        return Outcome(Verdict.ANSWERED if wire.unread else Verdict.WAITED)
    finally:
        wire.close()
