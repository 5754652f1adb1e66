"""AssemblyAI's protocol with assemblyai's client."""

from __future__ import annotations

from typing import Any

from auricle.audio.pcm import Int16
from benchmarks.clients.places import Places
from benchmarks.clients.speaking import SAMPLE_RATE, SECONDS, Outcome, Speaking


async def assemblyai_turns(places: Places, pcm: Int16) -> Outcome:
    """`WS /v3/ws`; the end of the audio ends the last turn."""
    from assemblyai.streaming import v3

    speaking = Speaking()
    errors: list[Any] = []

    async def told(_client: object, turn: Any) -> None:
        (speaking.final if turn.end_of_turn else speaking.shown)(turn.transcript)

    async def failed(_client: object, error: Any) -> None:
        errors.append(error)

    options = v3.RealTimeTranscriberOptions(
        api_host=places.socket,
        api_key="any",  # the graph has no keys
        terminate_timeout=SECONDS,
    )
    client = v3.AsyncRealTimeTranscriber(options)
    client.on(v3.RealTimeEvents.Turn, told)
    client.on(v3.RealTimeEvents.Error, failed)
    await client.connect(v3.RealTimeParameters(sample_rate=SAMPLE_RATE))
    async for packet in speaking.packets(pcm):
        await client.stream(packet.tobytes())
    await client.disconnect(terminate=True)
    if errors:
        raise RuntimeError(str(errors[0]))
    return speaking.outcome()
