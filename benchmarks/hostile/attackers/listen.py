"""Attacks on Deepgram's and AssemblyAI's protocols."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.hostile.attackers.http import posted
from benchmarks.hostile.attackers.sockets import Ending, conversed, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.case import Case, Outcome
from benchmarks.hostile.generators.websocket import frame


@dataclass
class _Ending(Ending):
    """How a session ended, in the words of either."""

    def take(self, opcode: int, payload: bytes) -> None:
        """Take one frame of the server."""
        super().take(opcode, payload)
        if opcode == 1 and b'"type":"Error"' in payload[:200]:
            # Deepgram's word for a message that is none looks like the name of an exception.
            self.error = payload.replace(b'"SchemaError"', b'""')


async def listen(target: Target, case: Case) -> Outcome:
    """Open a session with the case's query and send its messages, or post its recording."""
    path = f"{case.data['path']}?{case.data['query']}"
    if "body" in case.data:
        return await posted(target, path, case.data["content_type"], case.data["body"])
    wire = await opened(target, path)
    if isinstance(wire, Outcome):
        return wire
    frames = [frame(opcode, payload) for opcode, payload in case.data["sent"]]
    return await conversed(wire, frames, until_closed=True, ending=_Ending())
