"""KServe's service on a real gRPC port, with a fake processor: helpers for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import numpy as np

from auricle.frontend.protocols.kserve.service import SERVICE, kserve_methods
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing
from auricle.frontend.transport.admission import Readiness
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.grpc.schema import message
from auricle.frontend.transport.grpc.server import RpcServer
from auricle.frontend.transport.slots import NetworkRates
from tests.fakes.rpc import bearer
from tests.fakes.tcp_port import frontend

LOUD = np.full(16_000, 8_000, "<i2").tobytes()
QUIET = bytes(32_000)


def request(
    audio: bytes | None = None,
    *,
    datatype: str = "INT16",
    shape: Sequence[int] | None = None,
    outputs: Sequence[str] = (),
    fields: dict[str, Any] | None = None,
    **parameters: Any,
) -> Any:
    """A ModelInferRequest; without `audio` it has no input. `fields` sets further ones."""
    made = message("inference.ModelInferRequest")(
        **{"model_name": "demo", "id": "r1"} | (fields or {})
    )
    for name, value in parameters.items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(value)]
        setattr(made.parameters[name], kind, value)
    for name in outputs:
        made.outputs.add(name=name)
    if audio is not None:
        width = {"INT16": 2, "FP32": 4}.get(datatype, len(audio) or 1)
        made.inputs.add(name="AUDIO", datatype=datatype, shape=shape or [len(audio) // width])
        raw = len(audio).to_bytes(4, "little") + audio if datatype == "BYTES" else audio
        made.raw_input_contents.append(raw)
    return made


def text_of(response: Any) -> str:
    """The output TEXT of a ModelInferResponse."""
    names = [output.name for output in response.outputs]
    raw: bytes = response.raw_output_contents[names.index("TEXT")]
    assert int.from_bytes(raw[:4], "little") == len(raw) - 4
    return raw[4:].decode()


def is_final(response: Any) -> bool:
    """The output IS_FINAL of a ModelInferResponse."""
    names = [output.name for output in response.outputs]
    return bool(response.raw_output_contents[names.index("IS_FINAL")] == b"\1")


def is_last(response: Any) -> bool:
    """Whether a stream's response is the last one of its sequence."""
    return bool(response.infer_response.parameters["triton_final_response"].bool_param)


class Stream:
    """One call of ModelStreamInfer."""

    def __init__(self, channel: grpc.aio.Channel, secret: str | None = None) -> None:
        method = f"/{SERVICE}/ModelStreamInfer"
        self.call = channel.stream_stream(method)(metadata=bearer(secret), timeout=60)

    async def send(self, audio: bytes | None = None, **given: Any) -> None:
        await self.call.write(request(audio, **given).SerializeToString())

    async def read(self) -> Any:
        data = await self.call.read()
        assert isinstance(data, bytes), await self.call.details()
        return message("inference.ModelStreamInferResponse").FromString(data)

    async def answers(self, count: int = 1) -> list[Any]:
        """All responses until the last ones of `count` sequences."""
        found: list[Any] = []
        while sum(map(is_last, found)) < count:
            found.append(await self.read())
        return found


class Service:
    """The objects behind a served port."""

    def __init__(self, keys: Sequence[ApiKey] | None, **settings: Any) -> None:
        self.frontend = frontend(**settings)
        self.access = Access(KeyRing(keys))
        self.processors = 1

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[grpc.aio.Channel]:
        async def readiness() -> Readiness:
            return Readiness("ready" if self.processors else "not ready", self.processors, ())

        transcriber = RecordingTranscriber(self.frontend, cast(Any, None))
        recordings = RecordingCalls(self.frontend, self.access, transcriber)
        services = SimpleNamespace(
            rpc_methods=kserve_methods(self.frontend, self.access, recordings, readiness),
            readiness=readiness,
        )
        settings = self.frontend.settings.model_copy(update={"grpc_port": 0})
        connections, rates = Connections(ConnectionLimits()), NetworkRates(0.0, "requests")
        admission = self.frontend.admission
        server = RpcServer(settings, cast(Any, services), admission, connections, rates)
        await server.open()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                yield channel
        finally:
            await server.close()

    def ended(self) -> dict[str, float]:
        """The number of ended sessions by result."""
        counter = self.frontend.metrics._ended
        samples = [s for m in counter.collect() for s in m.samples if s.name.endswith("_total")]
        return {s.labels["result"]: s.value for s in samples}
