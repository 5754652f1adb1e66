"""The methods of `inference.GRPCInferenceService`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from auricle import __version__
from auricle.errors import UnsupportedValue
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.rpc.incoming import Context, Incoming, Method, Methods, only_message
from auricle.frontend.doors.rpc.schema import message, parsed
from auricle.frontend.frontend import Frontend
from auricle.frontend.kserve.answers import PACKAGE
from auricle.frontend.kserve.asking import VERSION
from auricle.frontend.kserve.recording import received
from auricle.frontend.kserve.stream import ModelStreamInfer
from auricle.frontend.kserve.tensors import AUDIO, OUTPUTS
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.quoting import quoted
from auricle.tasks import within

SERVICE = f"{PACKAGE}.GRPCInferenceService"
_MESSAGE_SECONDS = 10.0


def kserve_methods(
    frontend: Frontend,
    access: Access,
    recordings: RecordingCalls,
    processors: Callable[[], Awaitable[int]],
) -> Methods:
    """Return the methods of the service, for the frontend's event loop."""
    about = _About(frontend, access, processors)
    streams = ModelStreamInfer(frontend, access)

    async def infer(incoming: Incoming, context: Context) -> bytes:
        return await recordings.serve(incoming, context, "kserve", received)

    return {
        SERVICE: {
            "ServerLive": Method(about.live),
            "ServerReady": Method(about.ready),
            "ModelReady": Method(about.model_ready),
            "ServerMetadata": Method(about.server),
            "ModelMetadata": Method(about.model),
            "ModelInfer": Method(infer),
            "ModelStreamInfer": Method(streams.serve, streams=True),
        }
    }


class _About:
    """Says what the server is. Whether it serves needs no key, as with gRPC's health checking."""

    def __init__(
        self, frontend: Frontend, access: Access, processors: Callable[[], Awaitable[int]]
    ) -> None:
        self._frontend = frontend
        self._access = access
        self._processors = processors

    async def live(self, _incoming: Incoming, context: Context) -> bytes:
        await _asked(context, "ServerLiveRequest")
        return _answer("ServerLiveResponse", live=True)

    async def ready(self, _incoming: Incoming, context: Context) -> bytes:
        await _asked(context, "ServerReadyRequest")
        return _answer("ServerReadyResponse", ready=bool(await self._processors()))

    async def model_ready(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        asked = await _asked(context, "ModelReadyRequest")
        known = asked.name in self._frontend.models and asked.version in ("", VERSION)
        return _answer("ModelReadyResponse", ready=known and bool(await self._processors()))

    async def server(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        await _asked(context, "ServerMetadataRequest")
        return _answer(
            "ServerMetadataResponse", name="auricle", version=__version__, extensions=["sequence"]
        )

    async def model(self, incoming: Incoming, context: Context) -> bytes:
        self._access.client(incoming.metadata)
        asked = await _asked(context, "ModelMetadataRequest")
        self._frontend.check_model(asked.name)
        if asked.version not in ("", VERSION):
            raise UnsupportedValue(
                f"version {quoted(asked.version)} does not exist; there is '{VERSION}'", "version"
            )
        outputs = [{"name": n, "datatype": kind, "shape": [1]} for n, kind in OUTPUTS.items()]
        return _answer(
            "ModelMetadataResponse",
            name=asked.name,
            versions=[VERSION],
            platform="auricle",
            inputs=[{"name": AUDIO, "datatype": "FP32", "shape": [-1]}],
            outputs=outputs,
        )


async def _asked(context: Context, kind: str) -> Any:
    data = await within(_MESSAGE_SECONDS, only_message(context), "the call's message")
    return parsed(f"{PACKAGE}.{kind}", data)


def _answer(kind: str, **fields: Any) -> bytes:
    data: bytes = message(f"{PACKAGE}.{kind}")(**fields).SerializeToString()
    return data
