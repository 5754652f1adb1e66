"""Has LiveKit Agents' plug-ins hear recordings, unmodified; run in the frameworks' environment.

    python livekit_hears.py openai|openai_live|deepgram|flux URL WAV...

Prints each event of theirs as a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import Iterator

from livekit import rtc
from livekit.agents import stt
from livekit.agents.utils import http_context
from livekit.plugins import deepgram, openai

_FRAME_SECONDS = 0.02
# After each recording: long enough for every plug-in's end of turn.
_SILENCE_SECONDS = 1.5
# Some plug-ins keep their connection until the agent leaves. It leaves after this silence.
_QUIET_SECONDS = 6.0


def plugin(name: str, url: str) -> stt.STT:
    """The plug-in as its own documentation configures it, except for the address."""
    socket = url.replace("http", "ws", 1)
    if name == "openai":
        return openai.STT(
            model="gpt-4o-transcribe", use_realtime=True, base_url=f"{url}/v1", api_key="any"
        )
    if name == "openai_live":
        return openai.STT(model="gpt-realtime-whisper", base_url=f"{url}/v1", api_key="any")
    if name == "deepgram":
        return deepgram.STT(base_url=f"{url}/v1/listen", api_key="any")
    return deepgram.STTv2(base_url=f"{socket}/v2/listen", api_key="any")


def frames(paths: list[str]) -> Iterator[rtc.AudioFrame]:
    """The recordings, each with silence after it."""
    for path in paths:
        with wave.open(path) as file:
            rate = file.getframerate()
            pcm = file.readframes(file.getnframes()) + bytes(2 * round(_SILENCE_SECONDS * rate))
        size = round(_FRAME_SECONDS * rate)
        for at in range(0, len(pcm), 2 * size):
            data = pcm[at : at + 2 * size]
            yield rtc.AudioFrame(data, rate, 1, len(data) // 2)


async def speak(stream: stt.RecognizeStream, paths: list[str]) -> None:
    """Push the recordings in real time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, frame in enumerate(frames(paths)):
        await asyncio.sleep(began + number * _FRAME_SECONDS - loop.time())
        stream.push_frame(frame)
    stream.end_input()


async def main(name: str, url: str, *paths: str) -> None:
    """See the module."""
    async with http_context.open():
        stream = plugin(name, url).stream()
        speaking = asyncio.create_task(speak(stream, list(paths)))
        while (event := await next_event(stream, speaking)) is not None:
            text = event.alternatives[0].text if event.alternatives else ""
            print(json.dumps({"type": event.type.value, "text": text}), flush=True)
        await stream.aclose()


async def next_event(
    stream: stt.RecognizeStream, speaking: asyncio.Task[None]
) -> stt.SpeechEvent | None:
    """The next event; None after the last."""
    coming = asyncio.ensure_future(stream.__anext__())
    await asyncio.wait([coming, speaking], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([coming], timeout=_QUIET_SECONDS)
    if not coming.done():
        coming.cancel()
        return None
    try:
        return coming.result()
    except StopAsyncIteration:
        return None


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
