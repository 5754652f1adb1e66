"""Simulated encode and PD workers, which answer after a fixed time.

    python -m benchmarks.load.control.workers encode_worker --discovery DIR --milliseconds 5

They are used only to measure the control plane. The PD worker answers with 3.5 words per
second of audio, the same ones each time.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import CommonSettings
from auricle.dynamo import Route, Runtime
from auricle.protocol.recognition import (
    DecodeReply,
    DecodeRequest,
    EncodeReply,
    EncodeRequest,
    WindowRef,
)

_WORDS_PER_SECOND = 3.5
_EMBEDDINGS_PER_SECOND = 13
_TEXT = " ".join(["one two three four five six seven eight nine ten"] * 40)


class EncodeWorker:
    """Answers that every window is in a slab; the slab is never read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def generate(self, request: EncodeRequest) -> EncodeReply:
        """After the set time."""
        await asyncio.sleep(self._seconds)
        refs = tuple(
            WindowRef(
                key=window.key, fingerprint="", dtype="float32", length=1, agent="none",
                agent_metadata=b"", address=0, size=0, device=0, memory="DRAM", header=0, slot=0,
                generation=0, lease=0,
            )
            for window in request.windows
        )  # fmt: skip
        return EncodeReply(refs, encoded=len(refs))


class PdWorker:
    """Answers with as many words as fit into the audio."""

    def __init__(self, seconds: float, prompt: PromptFormat) -> None:
        self._seconds = seconds
        self._words = prompt._ids(_TEXT)
        self._prompt_tokens = len(prompt.tail("English"))

    async def generate(self, request: DecodeRequest) -> DecodeReply:
        """After the set time."""
        await asyncio.sleep(self._seconds)
        audio = sum(window.length for window in request.windows)
        said = int(audio / _EMBEDDINGS_PER_SECOND * _WORDS_PER_SECOND)
        known = len(request.tail) - self._prompt_tokens
        tokens = self._words[known:said]
        total = len(request.head) + audio + len(request.tail)
        return DecodeReply(tokens, "stop", total, 0, 0, steps=len(tokens))


async def _serve(arguments: argparse.Namespace) -> None:
    seconds = arguments.milliseconds / 1000
    runtime = Runtime(CommonSettings(discovery_path=arguments.discovery))
    if arguments.component == "encode_worker":
        route = Route("generate", EncodeRequest, unary=EncodeWorker(seconds).generate)
    else:
        prompt = PromptFormat(open_checkpoint(arguments.model))
        route = Route("generate", DecodeRequest, unary=PdWorker(seconds, prompt).generate)
    await runtime.serve(arguments.component, [route])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("component", choices=("encode_worker", "pd_worker"))
    parser.add_argument("--discovery", type=Path, required=True)
    parser.add_argument("--milliseconds", type=float, required=True)
    parser.add_argument("--model", type=Path, default=Path("models/demo"))
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
