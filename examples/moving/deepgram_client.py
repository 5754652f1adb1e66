"""From a hosted API (Deepgram's): the official client with another address.

python examples/moving/deepgram_client.py FILE [--url http://127.0.0.1:8080]
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import soundfile
from deepgram import AsyncDeepgramClient
from deepgram.environment import DeepgramClientEnvironment

_BYTES = 3200


async def transcribe(file: Path, url: str, key: str, model: str) -> None:
    """Send a file as live audio, and print each final result."""
    samples, rate = soundfile.read(file, dtype="int16")
    pcm = samples.tobytes()
    here = DeepgramClientEnvironment(
        base=url, production=url.replace("http", "ws", 1), agent=url, agent_rest=url
    )
    client = AsyncDeepgramClient(api_key=key, environment=here)
    options = {"encoding": "linear16", "sample_rate": rate, "interim_results": True}
    async with client.listen.v1.connect(model=model, **options) as connection:
        for at in range(0, len(pcm), _BYTES):
            await connection.send_media(pcm[at : at + _BYTES])
        await connection.send_close_stream()
        async for message in connection:
            if message.type == "Results" and message.is_final:
                print(message.channel.alternatives[0].transcript)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="WAV or FLAC, one channel")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default="any", help="an API key, where keys are set")
    parser.add_argument("--model", default="demo")
    asked = parser.parse_args()
    asyncio.run(transcribe(asked.file, asked.url, asked.key, asked.model))


if __name__ == "__main__":
    main()
