"""KServe's `inference.GRPCInferenceService` with Triton's official client, unmodified."""

from __future__ import annotations

import asyncio
import io
import queue
import re
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server

triton = pytest.importorskip("tritonclient.grpc", reason="run make setup-dev")

pytestmark = pytest.mark.end_to_end
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
PACKET = 1_600  # samples
SECONDS = 120.0


async def own_words(server: Server, name: str) -> str:
    samples = recordings.samples(name)
    events = [event async for event in stream_file(server.url, samples, live=False)]
    return str(events[-1]["text"])


def tensor(audio: Any, datatype: str) -> Any:
    made = triton.InferInput("AUDIO", list(audio.shape), datatype)
    made.set_data_from_numpy(audio)
    return made


def int16(samples: Any) -> Any:
    return np.clip(np.round(samples * 32_768), -32_768, 32_767).astype(np.int16)


class Listener:
    """An official client with a stream, and its results."""

    def __init__(self, address: str) -> None:
        self.client = triton.InferenceServerClient(address)
        self._told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self.client.start_stream(lambda result, error: self._told.put((result, error)))

    def send(self, audio: Any, datatype: str, sequence: int | str, **given: Any) -> None:
        self.client.async_stream_infer(
            "demo", [tensor(audio, datatype)], sequence_id=sequence, **given
        )

    def begin(self, samples: Any, datatype: str, sequence: int | str) -> None:
        """Send all packets but the last."""
        for at in range(0, len(samples) - PACKET, PACKET):
            part = samples[at : at + PACKET]
            self.send(part, datatype, sequence, sequence_start=at == 0)

    def finish(self, samples: Any, datatype: str, sequence: int | str) -> None:
        at = (len(samples) - 1) // PACKET * PACKET
        self.send(samples[at:], datatype, sequence, sequence_end=True)

    def partials(self, sequences: int) -> list[Any]:
        """All results until each of `sequences` sequences has a first, tentative text."""
        found: list[Any] = []
        begun: set[str] = set()
        while len(begun) < sequences:
            result, error = self._told.get(timeout=SECONDS)
            assert error is None, error
            found.append(result)
            if not result.as_numpy("IS_FINAL")[0]:
                begun.add(result.get_response().parameters["sequence_id"].string_param)
        return found

    def answers(self, sequences: int) -> list[Any]:
        """All results until the last ones of `sequences` sequences."""
        found: list[Any] = []
        while sequences:
            result, error = self._told.get(timeout=SECONDS)
            assert error is None, error
            found.append(result)
            sequences -= result.get_response().parameters["triton_final_response"].bool_param
        return found

    def error(self) -> str:
        _, error = self._told.get(timeout=SECONDS)
        return str(error.message())


def said(result: Any) -> str:
    text: bytes = result.as_numpy("TEXT")[0]
    return text.decode()


def words(results: list[Any]) -> str:
    finals = [said(result) for result in results if result.as_numpy("IS_FINAL")[0]]
    return " ".join(final for final in finals if final)


def of(results: list[Any], sequence: str) -> list[Any]:
    return [
        r for r in results if r.get_response().parameters["sequence_id"].string_param == sequence
    ]


async def test_the_words_are_those_of_our_own_protocol(server: Server, grpc_address: str) -> None:
    """Two concurrent sequences, one for each datatype; the same audio as recordings; an error."""
    own = {name: await own_words(server, name) for name in ("hello", "station")}

    def streamed() -> list[Any]:
        listener = Listener(grpc_address)
        listener.send(np.zeros(0, np.int16), "INT16", 9, sequence_start=False)
        assert listener.error().startswith("the sequence 9 has not begun")
        said_by = (
            (recordings.samples("hello").astype(np.float32), "FP32", "hello"),
            (int16(recordings.samples("station")), "INT16", "station"),
        )
        for one in said_by:
            listener.begin(*one)
        # At the end of its audio a sequence may skip all tentative text.
        results = listener.partials(2)
        for one in said_by:
            listener.finish(*one)
        results += listener.answers(2)
        listener.client.stop_stream()
        return results

    def recorded(name: str) -> list[str]:
        client = triton.InferenceServerClient(grpc_address)
        file = np.array([recordings.path(name).read_bytes()], np.object_)
        samples = recordings.samples(name).astype(np.float32)
        inputs = (tensor(file, "BYTES"), tensor(samples[None, :], "FP32"))
        return [said(client.infer("demo", [one])) for one in inputs]

    async with asyncio.timeout(SECONDS):
        results = await asyncio.to_thread(streamed)
        for name, said_before in own.items():
            assert words(of(results, name)) == said_before
            assert not of(results, name)[0].as_numpy("IS_FINAL")[0]
            assert await asyncio.to_thread(recorded, name) == [said_before] * 2


async def test_the_client_learns_what_is_served(grpc_address: str) -> None:
    def learn() -> None:
        client = triton.InferenceServerClient(grpc_address)
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("demo") and not client.is_model_ready("x")
        assert client.get_server_metadata().name == "auricle"
        assert client.get_model_metadata("demo").inputs[0].name == "AUDIO"

    async with asyncio.timeout(SECONDS):
        await asyncio.to_thread(learn)


async def test_the_example_in_the_docs_prints_the_words(server: Server, grpc_address: str) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs/kserve.md").read_text())
    samples = recordings.samples("hello").astype(np.float32)
    names = {"triton": triton, "queue": queue, "address": grpc_address, "samples": samples}
    printed = io.StringIO()
    async with asyncio.timeout(SECONDS):
        with redirect_stdout(printed):
            await asyncio.to_thread(exec, example, names)
    assert " ".join(printed.getvalue().split()) == await own_words(server, "hello")
