"""The frontend's real gRPC server without processes behind it: helpers for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from auricle.frontend.main import build_services
from auricle.frontend.transport.grpc.schema import message
from auricle.frontend.transport.grpc.server import RpcServer
from auricle.frontend.transport.slots import NetworkRates
from auricle.process.metrics import Registry
from tests.fakes.front import Front

RIVA = "nvidia.riva.asr.RivaSpeechRecognition"


@asynccontextmanager
async def calling(
    front: Front, rate: float = 0.0, credentials: Any = None
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the gRPC server of `front`, which takes `rate` calls a second."""
    services = build_services(
        front.frontend,
        front.access,
        cast(Any, front.decoders),
        Registry(),
        cast(Any, front.gatherer),
        front.tokens,
    )
    settings = front.frontend.settings.model_copy(update={"grpc_port": 0})
    rates = NetworkRates(rate, "requests", lambda: 0.0)
    connections = front.connections
    server = RpcServer(settings, services, front.frontend.admission, connections, rates)
    await server.open()
    assert server.port is not None
    front.grpc_port = server.port
    address = f"127.0.0.1:{server.port}"
    try:
        if credentials is None:
            channel = grpc.aio.insecure_channel(address)
        else:
            channel = grpc.aio.secure_channel(address, credentials)
        async with channel:
            yield channel
    finally:
        await server.close()


def bearer(secret: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata of a call with a key."""
    return () if secret is None else (("authorization", f"Bearer {secret}"),)


async def unary(
    channel: grpc.aio.Channel, method: str, request: bytes = b"", secret: str | None = None
) -> bytes:
    """The answer of a unary method. Raises AioRpcError."""
    answer: bytes = await channel.unary_unary(f"/{method}")(
        request, metadata=bearer(secret), timeout=60
    )
    return answer


def stream(channel: grpc.aio.Channel, secret: str | None = None) -> Any:
    """Begin a call of StreamingRecognize."""
    return channel.stream_stream(f"/{RIVA}/StreamingRecognize")(metadata=bearer(secret), timeout=60)


async def ended(call: Any) -> tuple[str, str]:
    """The name of the call's status code, and its details."""
    return (await call.code()).name, await call.details()


def details(metadata: Any) -> tuple[ErrorInfo, float | None]:
    """The ErrorInfo of a failed call, and the delay in seconds before a retry."""
    status, info, retry = Status(), ErrorInfo(), RetryInfo()
    status.ParseFromString(dict(metadata)["grpc-status-details-bin"])
    assert status.details[0].Unpack(info)
    if len(status.details) == 1:
        return info, None
    assert status.details[1].Unpack(retry)
    return info, retry.retry_delay.ToSeconds()


def first(**config: Any) -> bytes:
    """The first message of a live call."""
    asked = {"encoding": 1, "sample_rate_hertz": 16_000} | config
    kind = message("nvidia.riva.asr.StreamingRecognizeRequest")
    data: bytes = kind(streaming_config={"config": asked}).SerializeToString()
    return data


def audio(data: bytes = bytes(2)) -> bytes:
    """A later message of a live call."""
    kind = message("nvidia.riva.asr.StreamingRecognizeRequest")
    sent: bytes = kind(audio_content=data).SerializeToString()
    return sent


def recording(audio: bytes = b"RIFF", **config: Any) -> bytes:
    """The message of a recording."""
    kind = message("nvidia.riva.asr.RecognizeRequest")
    data: bytes = kind(config=config, audio=audio).SerializeToString()
    return data
