"""Has Pipecat's services hear recordings, unmodified; run in the frameworks' environment.

    python pipecat_hears.py openai|openai_server_vad|deepgram URL WAV...

Prints the frames that a service gives its pipeline as lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import AsyncIterator
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.deepgram.stt import DeepgramSTTService
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner

_RATE = 16_000
_FRAME_SECONDS = 0.02
_SILENCE_SECONDS = 1.5
_TOLD = (
    *(InterimTranscriptionFrame, TranscriptionFrame, ErrorFrame),
    *(ProposedUserStartedSpeakingFrame, ProposedUserStoppedSpeakingFrame),
)


def service(name: str, url: str) -> Any:
    """The service as its own documentation configures it, except for the address."""
    socket = f"{url.replace('http', 'ws', 1)}/v1/realtime"
    if name == "openai":
        return OpenAIRealtimeSTTService(api_key="any", base_url=socket)
    if name == "openai_server_vad":
        return OpenAIRealtimeSTTService(
            api_key="any",
            base_url=socket,
            turn_detection={"type": "server_vad"},
            settings=OpenAIRealtimeSTTService.Settings(model="gpt-transcribe"),
        )
    return DeepgramSTTService(api_key="any", base_url=url)


class Told(FrameProcessor):
    """Follows the service in the pipeline and prints its output frames."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """See the class."""
        await super().process_frame(frame, direction)
        if isinstance(frame, _TOLD):
            text = getattr(frame, "text", "") or getattr(frame, "error", "")
            print(json.dumps({"type": type(frame).__name__, "text": text}), flush=True)
        await self.push_frame(frame, direction)


async def spoken(paths: tuple[str, ...]) -> AsyncIterator[Frame]:
    """The recordings in real time, with the frames of a pipeline's voice activity detector."""
    loop = asyncio.get_running_loop()
    began, number = loop.time(), 0
    for path in paths:
        with wave.open(path) as file:
            assert file.getframerate() == _RATE
            pcm = file.readframes(file.getnframes())
        yield VADUserStartedSpeakingFrame()
        size = 2 * round(_FRAME_SECONDS * _RATE)
        silence = bytes(2 * round(_SILENCE_SECONDS * _RATE))
        for part in (pcm, silence):
            for at in range(0, len(part), size):
                await asyncio.sleep(began + number * _FRAME_SECONDS - loop.time())
                number += 1
                yield InputAudioRawFrame(part[at : at + size], _RATE, 1)
            if part is pcm:
                yield VADUserStoppedSpeakingFrame()
    await asyncio.sleep(_SILENCE_SECONDS)


async def main(name: str, url: str, *paths: str) -> None:
    """See the module."""
    logger.remove()
    pipeline = Pipeline([service(name, url), Told()])
    worker = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=_RATE))

    async def speak() -> None:
        async for frame in spoken(paths):
            await worker.queue_frame(frame)
        await worker.queue_frame(EndFrame())

    speaking = asyncio.create_task(speak())
    await WorkerRunner(handle_sigint=False).run(worker)
    await speaking


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
