"""From a WebSocket of your own (FastAPI + qwen-asr): samples in, text out, any WebSocket client.

python examples/moving/websocket_client.py FILE [--url ws://127.0.0.1:8080]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import soundfile
import websockets

_SAMPLES = 1600


async def transcribe(file: Path, url: str) -> None:
    """Send the samples of a file, and print partial and final text as it arrives."""
    samples, rate = soundfile.read(file, dtype="int16")
    async with websockets.connect(f"{url}/v1/audio/stream") as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": rate}))
        sending = asyncio.create_task(_send(socket, samples.tobytes()))
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "partial":
                # Committed text is final; the rest may change with the next chunk.
                print(f"… {event['committed']}[{event['partial']}]")
            elif event["type"] == "final":
                print(event["text"])
            elif event["type"] == "error":
                raise SystemExit(event["message"])
        await sending


async def _send(socket: websockets.ClientConnection, pcm: bytes) -> None:
    for at in range(0, len(pcm), 2 * _SAMPLES):
        await socket.send(pcm[at : at + 2 * _SAMPLES])
    await socket.send(json.dumps({"type": "end"}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="WAV or FLAC, one channel")
    parser.add_argument("--url", default="ws://127.0.0.1:8080")
    asked = parser.parse_args()
    asyncio.run(transcribe(asked.file, asked.url))


if __name__ == "__main__":
    main()
