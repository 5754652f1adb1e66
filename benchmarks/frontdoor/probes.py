"""Measures what users notice: the latency of /health and the lag of live text."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import numpy as np
import websockets

from auricle.audio.pcm import Int16

_RATE = 16_000
_PACKET = 1_600
_POLL_SECONDS = 0.02


async def health(url: str, seconds: float) -> list[float]:
    """Milliseconds of each of about 50 answers a second, one connection; 5 s if none came."""
    took: list[float] = []
    end = time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=url, timeout=5.0) as client:
        while (began := time.monotonic()) < end:
            try:
                answer = await client.get("/health")
                answer.raise_for_status()
            except httpx.TimeoutException:
                pass
            took.append(1000 * (time.monotonic() - began))
            await asyncio.sleep(max(0.0, _POLL_SECONDS - (time.monotonic() - began)))
    return took


async def live_lag(url: str, speech: Int16, seconds: float) -> list[float]:
    """Run one live session; return the seconds from sent audio to its text.

    There is one value per partial, without the duration of the audio. A session that does not
    end within a minute of its audio counts with that minute. Raises RuntimeError if the session
    fails, because its lags until then would be too favourable.
    """
    address = url.replace("http", "ws", 1) + "/v1/audio/stream"
    lags: list[float] = []
    total = int(seconds * _RATE)
    audio = np.resize(speech, total)
    async with websockets.connect(address, ping_timeout=None, open_timeout=60) as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": _RATE}))
        while json.loads(await socket.recv())["type"] != "ready":
            pass
        began = time.monotonic()

        async def send() -> None:
            for at in range(0, total, _PACKET):
                await asyncio.sleep(max(0.0, began + (at + _PACKET) / _RATE - time.monotonic()))
                await socket.send(audio[at : at + _PACKET].astype("<i2").tobytes())
            await socket.send('{"type": "end"}')

        sending = asyncio.create_task(send())
        try:
            async with asyncio.timeout(seconds + 60):
                async for message in socket:
                    event = json.loads(message)
                    if event["type"] == "partial":
                        lags.append(time.monotonic() - began - event["audio_ms"] / 1000)
                    elif event["type"] == "error":
                        raise RuntimeError(
                            f"a live session failed: {event['code']}: {event['message']}"
                        )
                    elif event["type"] == "done":
                        break
                else:
                    raise RuntimeError(f"a live session was closed: {socket.close_code}")
        except TimeoutError:
            lags.append(60.0)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    return lags
