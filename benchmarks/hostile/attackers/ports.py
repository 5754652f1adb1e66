"""Attacks on telephones' sockets, and on the TCP ports of AudioSocket and Wyoming."""

from __future__ import annotations

import msgspec

from benchmarks.hostile.attackers.sockets import conversed, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, Wire
from benchmarks.hostile.case import Case, Outcome, Verdict, leak
from benchmarks.hostile.generators.websocket import frame

# How long a connection is given to complain before this side ends.
_PATIENCE = 0.15


async def telephones(target: Target, case: Case) -> Outcome:
    """Make the call that the case describes."""
    if "stream" in case.data:
        said = await _said(target, target.audiosocket_port, case.data["stream"])
        # It can say nothing but to hang up.
        return said if isinstance(said, Outcome) else Outcome(Verdict.REFUSED, repr(said[:40]))
    wire = await opened(target, f"{case.data['path']}?{case.data['query']}")
    if isinstance(wire, Outcome):
        return wire
    frames = [frame(opcode, payload) for opcode, payload in case.data["sent"]]
    return await conversed(wire, frames, until_closed=True)


async def wyoming(target: Target, case: Case) -> Outcome:
    """Send events on one connection."""
    said = await _said(target, target.wyoming_port, case.data)
    return said if isinstance(said, Outcome) else _judged(said)


async def _said(target: Target, port: int, data: bytes) -> bytes | Outcome:
    """Send, end and return what came back; an outcome if nothing did."""
    wire = await Wire.open(Address(target.host, port))
    try:
        await wire.send(data)
        waited = not await wire.hears_end(_PATIENCE)
        if not wire.unread:
            return Outcome(Verdict.WAITED if waited else Verdict.CLOSED)
        return bytes(wire.unread)
    finally:
        wire.close()


def _judged(said: bytes) -> Outcome:
    """Judge the events that came back, of which the last may be an error."""
    error: dict[str, object] = {}
    at = 0
    while (end := said.find(b"\n", at)) >= 0:
        header = msgspec.json.decode(said[at:end])
        at = end + 1 + header.get("data_length", 0)
        if header["type"] == "error":
            error = msgspec.json.decode(said[end + 1 : at])
    if not error:
        return Outcome(Verdict.ANSWERED, repr(said[:120]))
    detail = repr(error)[:200]
    if error.get("code") == "internal":
        return Outcome(Verdict.FAILED, detail)
    if "retry_after_seconds" in error:
        return Outcome(Verdict.BUSY, detail)
    if found := leak(str(error.get("text")).encode()):
        return Outcome(Verdict.LEAKED, found)
    return Outcome(Verdict.REFUSED, detail)
