"""Telephony protocols. Carriers publish no client, so these functions send the same messages."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import uuid

import numpy as np
import soundfile
import soxr
import websockets

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle_testing.services import stored_messages
from benchmarks.clients.places import Places
from benchmarks.clients.speaking import SAMPLE_RATE, SECONDS, Outcome, Speaking, with_silence
from benchmarks.clients.ways import stream

RATE = 8_000
_FRAME = RATE // 50  # telephones send 20 ms


def telephone(pcm: Int16) -> Int16:
    """Return audio at a telephone's sample rate."""
    # soxr dithers int16 samples, so that each call would return different ones.
    return to_int16(soxr.resample(to_float(pcm), SAMPLE_RATE, RATE))


async def stream_8k(places: Places, pcm: Int16) -> Outcome:
    """Our own protocol with a telephone's audio."""
    return await stream(places, telephone(pcm), RATE)


async def stream_mu_law(places: Places, pcm: Int16) -> Outcome:
    """Our own protocol with audio as mu-law leaves it."""
    return await stream(places, _through_mu_law(telephone(pcm)), RATE)


async def twilio(places: Places, pcm: Int16) -> Outcome:
    """`WS /v1/twilio`; its text goes to the transcript bus."""
    call = f"CA{uuid.uuid4().hex}"
    await twilio_call(places.socket, pcm, call)
    return Outcome(await _published(places, call))


async def twilio_call(url: str, pcm: Int16, call: str, key: str = "") -> None:
    """Speak in a call of that name, with an API key if there is one."""
    speaking = Speaking()
    audio = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
    begun = {"streamSid": f"MZ{call}", "callSid": call, "accountSid": "AC", "tracks": ["inbound"]}
    start = begun | {"mediaFormat": audio, "customParameters": {"api_key": key} if key else {}}
    async with websockets.connect(f"{url}/v1/twilio") as socket:
        await socket.send(json.dumps({"event": "connected", "protocol": "Call"}))
        await socket.send(json.dumps({"event": "start", "start": start}))
        async for packet in speaking.packets(telephone(pcm), RATE):
            for frame in _frames(packet):
                payload = base64.b64encode(_mu_law(frame)).decode()
                media = {"track": "inbound", "payload": payload}
                await socket.send(json.dumps({"event": "media", "media": media}))
        await socket.send(json.dumps({"event": "stop", "stop": {}}))
        await socket.wait_closed()


async def audiosocket(places: Places, pcm: Int16) -> Outcome:
    """AudioSocket; its text goes to the transcript bus."""
    speaking, call = Speaking(), uuid.uuid4()
    reader, writer = await asyncio.open_connection("127.0.0.1", places.audiosocket)
    writer.write(b"\x01\x00\x10" + call.bytes)
    async for packet in speaking.packets(telephone(pcm), RATE):
        for frame in _frames(packet):
            data = frame.tobytes()
            writer.write(b"\x10" + len(data).to_bytes(2, "big") + data)
    writer.write(b"\x00\x00\x00")
    async with asyncio.timeout(SECONDS):
        await reader.read()
    writer.close()
    return Outcome(await _published(places, str(call)))


async def vapi(places: Places, pcm: Int16) -> Outcome:
    """`WS /v1/vapi`; one side of the call is silent, and Vapi sends no message at the end of
    speech."""
    speaking = Speaking()
    start = {"encoding": "linear16", "container": "raw", "sampleRate": SAMPLE_RATE, "channels": 2}
    async with websockets.connect(f"{places.socket}/v1/vapi?language=en") as socket:
        await socket.send(json.dumps({"type": "start"} | start))

        async def send() -> None:
            async for packet in speaking.packets(pcm):
                await socket.send(_beside_silence(packet))
            async for packet in Speaking().packets(with_silence(pcm[:0])):
                await socket.send(_beside_silence(packet))
            await socket.close()

        sending = asyncio.create_task(send())
        async for message in socket:
            told = json.loads(message)
            heard = speaking.final if told["transcriptType"] == "final" else speaking.shown
            heard(told["transcription"])
        await sending
    return speaking.outcome()


def _beside_silence(packet: Int16) -> bytes:
    return np.stack([packet, np.zeros_like(packet)], axis=1).tobytes()


async def _published(places: Places, call: str) -> str:
    """Return the text of an ended call once it has arrived at the transcript bus."""
    async with asyncio.timeout(SECONDS):
        while True:
            texts = [
                message["text"]
                for message in await stored_messages(places.bus.address)
                if message["session"] == call and message["type"] == "final" and message["text"]
            ]
            if texts:
                return " ".join(texts)
            await asyncio.sleep(0.2)


def _frames(packet: Int16) -> list[Int16]:
    return [packet[at : at + _FRAME] for at in range(0, len(packet), _FRAME)]


def _mu_law(frame: Int16) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, frame, RATE, format="RAW", subtype="ULAW")
    return file.getvalue()


def _through_mu_law(pcm: Int16) -> Int16:
    file = io.BytesIO(_mu_law(pcm))
    samples, _ = soundfile.read(
        file, format="RAW", subtype="ULAW", samplerate=RATE, channels=1, dtype="int16"
    )
    return np.asarray(samples, np.int16)
