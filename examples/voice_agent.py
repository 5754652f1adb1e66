"""A voice agent: Pipecat's pipeline with auricle as recognizer and espeak-ng as synthesizer.

    pip install 'pipecat-ai[openai]==1.14.0' espeakng-loader soundfile
    python examples/voice_agent.py RECORDING... [--url http://127.0.0.1:8080] [--out agent.wav]

auricle detects where a turn of the caller ends. `Replies` then stands for a language model, and the
voice speaks its answer, which the caller interrupts by speaking. The caller is a list of recordings
(WAV, FLAC, MP3 or Ogg; 16 kHz, one channel), so that the agent runs without a microphone: each
begins when the answer to the one before is over. In an application a transport of Pipecat takes the
place of `speak` and `Listener`, and a service such as `OpenAILLMService` the place of `Replies`.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import espeakng_loader
import numpy as np
import soundfile
from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner

RATE = 16_000
FRAME_SECONDS = 0.02
ANSWER_SECONDS = 120.0


class Replies(FrameProcessor):
    """Takes the place of a language model: repeats the words of the caller."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Answer the last message of the conversation; pass all other frames on."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        heard = str(frame.context.get_messages()[-1]["content"])
        answer = f"You said: {heard}."
        print(f"caller: {heard}\nagent: {answer}", flush=True)
        await self.push_frame(LLMFullResponseStartFrame())
        await self.push_frame(LLMTextFrame(answer))
        await self.push_frame(LLMFullResponseEndFrame())


class Espeak:
    """espeak-ng as a library; a process can have one."""

    _SYNCHRONOUS, _UTF8 = 2, 1

    def __init__(self) -> None:
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = espeakng_loader.get_data_path().encode()
        self.rate: int = self._library.espeak_Initialize(self._SYNCHRONOUS, 0, data, 0)
        self._samples = bytearray()
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._take)  # kept here, as the library calls it later
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: int | None, count: int, _events: int | None) -> int:
        if samples:
            self._samples += ctypes.string_at(samples, 2 * count)
        return 0

    def speak(self, text: str) -> bytes:
        """Return the 16-bit samples of a text."""
        self._samples.clear()
        data = text.encode()
        self._library.espeak_Synth(data, len(data) + 1, 0, 1, 0, self._UTF8, None, None)
        return bytes(self._samples)


class EspeakService(TTSService):
    """espeak-ng as a service of Pipecat."""

    def __init__(self) -> None:
        settings = TTSSettings(model=None, voice=None, language=None)
        super().__init__(push_start_frame=True, push_stop_frames=True, settings=settings)
        self._espeak = Espeak()

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Yield the audio of a sentence."""
        samples = await asyncio.to_thread(self._espeak.speak, text)
        yield TTSAudioRawFrame(samples, self._espeak.rate, 1, context_id=context_id)


class Listener(FrameProcessor):
    """The caller's ears: keeps the audio of the agent, and notes where an answer ends."""

    def __init__(self) -> None:
        super().__init__()
        self.audio = bytearray()
        self.rate = 0
        self.answered = asyncio.Event()
        self.failure = ""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """See the class."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.audio += frame.audio
            self.rate = frame.sample_rate
        elif isinstance(frame, TTSStoppedFrame):
            self.answered.set()
        await self.push_frame(frame, direction)

    def write(self, path: Path) -> None:
        """Write the audio of all answers as a WAV file."""
        samples = np.frombuffer(self.audio, np.int16)
        soundfile.write(path, samples, self.rate, format="WAV", subtype="PCM_16")


def packets(path: Path) -> Iterator[bytes]:
    """Yield a recording in packets, and then silence without end."""
    samples, rate = soundfile.read(path, dtype="int16")
    if rate != RATE or samples.ndim > 1:
        raise SystemExit(f"{path} has {rate} Hz, not {RATE}, or more than one channel")
    pcm = samples.tobytes()
    size = 2 * round(FRAME_SECONDS * RATE)
    for at in range(0, len(pcm), size):
        yield pcm[at : at + size]
    while True:
        yield bytes(size)


async def speak(worker: PipelineWorker, listener: Listener, recordings: list[Path]) -> None:
    """Send the recordings in real time, each until it is answered, and then the end."""
    for recording in recordings:
        listener.answered.clear()
        for packet in packets(recording):
            if listener.answered.is_set():
                break
            await worker.queue_frame(InputAudioRawFrame(packet, RATE, 1))
            await asyncio.sleep(FRAME_SECONDS)
    await worker.queue_frame(EndFrame())


def pipeline(url: str, listener: Listener) -> Pipeline:
    """Return the agent: ears, turns, a model, a voice."""
    ears = OpenAIRealtimeSTTService(
        api_key="any",  # the server's key, if it has keys
        base_url=f"{url.replace('http', 'ws', 1)}/v1/realtime",
        turn_detection={"type": "server_vad"},
        settings=OpenAIRealtimeSTTService.Settings(model="gpt-transcribe"),
    )
    turns = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
    conversation = LLMContextAggregatorPair(LLMContext(), user_params=turns)
    return Pipeline(
        [
            *(ears, conversation.user(), Replies(), EspeakService()),
            *(listener, conversation.assistant()),
        ]
    )


async def main(recordings: list[Path], url: str, out: Path) -> None:
    """Let the recordings talk to the agent, and write its answers."""
    logger.remove()  # Pipecat's log; the first error ends this program
    listener = Listener()
    params = PipelineParams(audio_in_sample_rate=RATE)
    worker = PipelineWorker(pipeline(url, listener), params=params)

    @worker.event_handler("on_pipeline_error")
    async def on_error(_worker: PipelineWorker, frame: ErrorFrame) -> None:
        listener.failure = listener.failure or frame.error
        await worker.cancel()

    async with asyncio.timeout(ANSWER_SECONDS * len(recordings)), asyncio.TaskGroup() as tasks:
        speaking = tasks.create_task(speak(worker, listener, recordings))
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        await runner.run()
        speaking.cancel()
    if listener.failure:
        raise SystemExit(f"voice_agent: {listener.failure}")
    listener.write(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A voice agent with auricle as recognizer.")
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--out", type=Path, default=Path("agent.wav"))
    given = parser.parse_args()
    asyncio.run(main(given.recordings, given.url, given.out))
