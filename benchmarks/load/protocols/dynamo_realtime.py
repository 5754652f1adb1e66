"""OpenAI's realtime transcription from Dynamo's worker, whose text has the marks of vLLM's class.

The whole session is one turn. The worker refuses turns longer than 60 s.
"""

from __future__ import annotations

from benchmarks.load.protocols import Target, realtime
from benchmarks.load.protocols.vllm_realtime import plain
from benchmarks.load.record import Record


async def run(target: Target, record: Record) -> None:
    """One session."""
    await realtime.run(target, record, plain)
