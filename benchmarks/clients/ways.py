"""The protocols, each with its official client: one session in real time, or one recording."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import soundfile

from auricle.audio.pcm import Int16
from auricle.client import Client, Done, Final, Partial
from benchmarks.clients.places import Places
from benchmarks.clients.speaking import SAMPLE_RATE, SECONDS, Outcome, Speaking, with_silence

Way = Callable[[Places, Int16], Awaitable[Outcome]]
_KEY = "any"  # the graph has no keys
_PREFIX = "conversation.item.input_audio_transcription."
_WYOMING = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}


async def stream(places: Places, pcm: Int16, rate: int = SAMPLE_RATE) -> Outcome:
    """Our own protocol with `auricle.client`, live."""
    speaking = Speaking()
    events = Client([places.url]).stream(
        speaking.packets(pcm, rate), partials=True, live=True, sample_rate=rate
    )
    async for event in events:
        if isinstance(event, Partial):
            speaking.shown(event.partial, event.committed)
        elif isinstance(event, Final):
            speaking.final(event.text)
    return speaking.outcome()


async def stream_then_silence(places: Places, pcm: Int16) -> Outcome:
    """The same, but silence follows the speech; it must be long enough for the final text."""
    speaking = Speaking()

    async def packets() -> AsyncIterator[Int16]:
        async for packet in speaking.packets(pcm):
            yield packet
        async for packet in Speaking().packets(with_silence(pcm[:0])):
            yield packet

    async for event in Client([places.url]).stream(packets(), partials=True, live=True):
        if isinstance(event, Partial):
            speaking.shown(event.partial, event.committed)
        elif isinstance(event, Final):
            speaking.final(event.text)
    return speaking.outcome()


async def file(places: Places, pcm: Int16) -> Outcome:
    """A recording by our own protocol, as fast as the server takes it."""
    client = Client([places.url])
    speaking = Speaking()
    speaking.stop()
    async for event in client.stream(pcm, partials=False):
        if isinstance(event, Done):
            speaking.final(event.text)
    return speaking.outcome()


async def openai_realtime(places: Places, pcm: Int16) -> Outcome:
    """`WS /v1/realtime` with openai's client."""
    return await _openai_realtime(places, pcm, "medium")


async def openai_realtime_sooner(places: Places, pcm: Int16) -> Outcome:
    """The same, but text is committed once two decodes agree; some of it would have changed."""
    return await _openai_realtime(places, pcm, "low")


async def _openai_realtime(places: Places, pcm: Int16, delay: str) -> Outcome:
    import openai

    client = openai.AsyncOpenAI(base_url=f"{places.url}/v1", api_key=_KEY)
    speaking = Speaking()
    audio = {
        "format": {"type": "audio/pcm", "rate": SAMPLE_RATE},
        "transcription": {"model": "demo", "delay": delay},
        "turn_detection": None,
    }
    session: Any = {"type": "transcription", "audio": {"input": audio}}
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.session.update(session=session)

        async def send() -> None:
            async for packet in speaking.packets(pcm):
                data = base64.b64encode(packet.tobytes()).decode()
                await connection.input_audio_buffer.append(audio=data)
            await connection.input_audio_buffer.commit()

        sending = asyncio.create_task(send())
        async for event in connection:
            if event.type == f"{_PREFIX}delta":
                speaking.shown("", event.delta or "")
            elif event.type == f"{_PREFIX}completed":
                speaking.final(event.transcript)
                break
            elif event.type == "error":
                raise RuntimeError(event.error.message)
        await sending
    return speaking.outcome()


async def openai_transcriptions(places: Places, pcm: Int16) -> Outcome:
    """`POST /v1/audio/transcriptions` with openai's client."""
    import openai

    client = openai.AsyncOpenAI(base_url=f"{places.url}/v1", api_key=_KEY)
    speaking = Speaking()
    speaking.stop()
    answer = await client.audio.transcriptions.create(model="demo", file=("a.wav", wav(pcm)))
    speaking.final(answer.text)
    return speaking.outcome()


def _deepgram(places: Places) -> Any:
    import deepgram
    from deepgram.environment import DeepgramClientEnvironment

    environment = DeepgramClientEnvironment(
        base=places.url, production=places.socket, agent=places.url, agent_rest=places.url
    )
    return deepgram.AsyncDeepgramClient(api_key=_KEY, environment=environment)


async def deepgram_live(places: Places, pcm: Int16) -> Outcome:
    """`WS /v1/listen` with deepgram-sdk."""
    client = _deepgram(places)
    speaking = Speaking()
    asked = {"model": "demo", "encoding": "linear16", "sample_rate": SAMPLE_RATE}
    async with client.listen.v1.connect(**asked, interim_results=True) as connection:

        async def send() -> None:
            async for packet in speaking.packets(pcm):
                await connection.send_media(packet.tobytes())
            await connection.send_close_stream()

        sending = asyncio.create_task(send())
        async for message in connection:
            if message.type == "Results":
                text = message.channel.alternatives[0].transcript
                (speaking.final if message.is_final else speaking.shown)(text)
        await sending
    return speaking.outcome()


async def deepgram_turns(places: Places, pcm: Int16) -> Outcome:
    """`WS /v2/listen` (Flux) with deepgram-sdk; the client ends the last turn."""
    client = _deepgram(places)
    speaking = Speaking()
    asked = {"model": "demo", "encoding": "linear16", "sample_rate": SAMPLE_RATE}
    async with client.listen.v2.connect(**asked) as connection:

        async def send() -> None:
            async for packet in speaking.packets(pcm):
                await connection.send_media(packet.tobytes())
            await connection.send_force_end_turn()

        sending = asyncio.create_task(send())
        async for message in connection:
            if message.type != "TurnInfo":
                continue
            if message.event == "EndOfTurn":
                speaking.final(message.transcript)
                if message.trigger == "manual":
                    break
            else:
                speaking.shown(message.transcript)
        await sending
        await connection.send_close_stream()
    return speaking.outcome()


async def deepgram_recording(places: Places, pcm: Int16) -> Outcome:
    """`POST /v1/listen` with deepgram-sdk."""
    client = _deepgram(places)
    speaking = Speaking()
    speaking.stop()
    answer = await client.listen.v1.media.transcribe_file(request=wav(pcm), model="demo")
    speaking.final(answer.results.channels[0].alternatives[0].transcript)
    return speaking.outcome()


async def riva_live(places: Places, pcm: Int16) -> Outcome:
    """`StreamingRecognize` with nvidia-riva-client, which has threads."""
    return await asyncio.to_thread(_riva_live, places, pcm)


def _riva_live(places: Places, pcm: Int16) -> Outcome:
    import riva.client

    speaking = Speaking()
    service = riva.client.ASRService(riva.client.Auth(uri=places.grpc))
    linear = riva.client.AudioEncoding.LINEAR_PCM
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(encoding=linear, sample_rate_hertz=SAMPLE_RATE),
        interim_results=True,
    )
    audio = (packet.tobytes() for packet in speaking.blocking_packets(pcm))
    for response in service.streaming_response_generator(audio, config):
        for result in response.results:
            text = result.alternatives[0].transcript
            (speaking.final if result.is_final else speaking.shown)(text)
    return speaking.outcome()


async def riva_recording(places: Places, pcm: Int16) -> Outcome:
    """`Recognize` with nvidia-riva-client."""
    import riva.client

    speaking = Speaking()
    speaking.stop()
    service = riva.client.ASRService(riva.client.Auth(uri=places.grpc))
    answer = await asyncio.to_thread(
        service.offline_recognize, wav(pcm), riva.client.RecognitionConfig()
    )
    speaking.final("".join(result.alternatives[0].transcript for result in answer.results))
    return speaking.outcome()


async def wyoming(places: Places, pcm: Int16) -> Outcome:
    """Wyoming with its own client."""
    from wyoming.asr import Transcribe, Transcript, TranscriptChunk
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.client import AsyncTcpClient

    speaking = Speaking()
    async with AsyncTcpClient("127.0.0.1", places.wyoming) as client:

        async def send() -> None:
            await client.write_event(Transcribe().event())
            await client.write_event(AudioStart(**_WYOMING).event())
            async for packet in speaking.packets(pcm):
                await client.write_event(AudioChunk(**_WYOMING, audio=packet.tobytes()).event())
            await client.write_event(AudioStop().event())

        sending = asyncio.create_task(send())
        async with asyncio.timeout(SECONDS):
            while (event := await client.read_event()) is not None:
                if event.type == "transcript-chunk":
                    speaking.shown("", TranscriptChunk.from_event(event).text)
                elif event.type == "transcript":
                    speaking.final(Transcript.from_event(event).text)
                    break
        await sending
    return speaking.outcome()


def wav(pcm: Int16) -> bytes:
    """Return a WAV file."""
    file = io.BytesIO()
    soundfile.write(file, pcm, SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()
