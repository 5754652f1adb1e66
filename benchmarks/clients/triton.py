"""KServe's protocol with tritonclient, which uses threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np

from auricle.audio.pcm import Int16
from benchmarks.clients.places import Places
from benchmarks.clients.speaking import SECONDS, Outcome, Speaking
from benchmarks.clients.ways import wav


async def triton_live(places: Places, pcm: Int16) -> Outcome:
    """`ModelStreamInfer`, one sequence."""
    return await asyncio.to_thread(_live, places, pcm)


def _live(places: Places, pcm: Int16) -> Outcome:
    import tritonclient.grpc as triton

    speaking, over = Speaking(), threading.Event()
    errors: list[Any] = []

    def told(result: Any, error: Any) -> None:
        if error is not None:
            errors.append(error)
            over.set()
            return
        if text := _text(result):
            (speaking.final if result.as_numpy("IS_FINAL")[0] else speaking.shown)(text)
        if result.get_response().parameters["triton_final_response"].bool_param:
            over.set()

    with triton.InferenceServerClient(places.grpc) as client:
        client.start_stream(told)
        for number, packet in enumerate(speaking.blocking_packets(pcm)):
            audio = triton.InferInput("AUDIO", [len(packet)], "INT16")
            audio.set_data_from_numpy(packet)
            client.async_stream_infer("demo", [audio], sequence_id=1, sequence_start=number == 0)
        client.async_stream_infer("demo", [], sequence_id=1, sequence_end=True)
        heard = over.wait(SECONDS)
    if errors or not heard:
        raise RuntimeError(str(errors[0] if errors else "the sequence did not end"))
    return speaking.outcome()


async def triton_recording(places: Places, pcm: Int16) -> Outcome:
    """`ModelInfer`."""
    speaking = Speaking()
    speaking.stop()
    speaking.final(await asyncio.to_thread(_recorded, places, wav(pcm)))
    return speaking.outcome()


def _recorded(places: Places, file: bytes) -> str:
    import tritonclient.grpc as triton

    audio = triton.InferInput("AUDIO", [1], "BYTES")
    audio.set_data_from_numpy(np.array([file], np.object_))
    with triton.InferenceServerClient(places.grpc) as client:
        return _text(client.infer("demo", [audio]))


def _text(result: Any) -> str:
    text: bytes = result.as_numpy("TEXT")[0]
    return text.decode()
