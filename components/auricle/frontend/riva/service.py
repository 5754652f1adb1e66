"""The methods of `nvidia.riva.asr.RivaSpeechRecognition`."""

from __future__ import annotations

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.rpc.calls import LiveCalls
from auricle.frontend.doors.rpc.incoming import Context, Incoming, Method, Methods, only_message
from auricle.frontend.doors.rpc.schema import message, parsed
from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.frontend.riva.recording import received
from auricle.frontend.riva.results import PACKAGE
from auricle.frontend.riva.session import StreamingRecognize
from auricle.tasks import within

SERVICE = f"{PACKAGE}.RivaSpeechRecognition"
_MESSAGE_SECONDS = 10.0


def riva_methods(frontend: Frontend, access: Access, recordings: RecordingCalls) -> Methods:
    """Return the methods of the service, for the frontend's event loop."""
    slow_reader_seconds = frontend.settings.slow_reader_seconds
    calls = LiveCalls(access, frontend.front_door, frontend.live_sessions, slow_reader_seconds)
    streaming = StreamingRecognize(frontend)

    async def stream(incoming: Incoming, context: Context) -> None:
        await calls.serve(incoming, context, "riva", streaming.run)

    async def recognize(incoming: Incoming, context: Context) -> bytes:
        return await recordings.serve(incoming, context, "riva", received)

    async def config(incoming: Incoming, context: Context) -> bytes:
        access.client(incoming.metadata)
        data = await within(_MESSAGE_SECONDS, only_message(context), "the call's message")
        wanted = parsed(f"{PACKAGE}.RivaSpeechRecognitionConfigRequest", data).model_name
        frontend.check_model(wanted or None)
        return _configs((wanted,) if wanted else frontend.models)

    return {
        SERVICE: {
            "Recognize": Method(recognize),
            "StreamingRecognize": Method(stream, streams=True),
            "GetRivaSpeechRecognitionConfig": Method(config),
        }
    }


def _configs(names: tuple[str, ...]) -> bytes:
    """Return the configuration of the served model under each of its names."""
    response = message(f"{PACKAGE}.RivaSpeechRecognitionConfigResponse")()
    about = {"type": "online", "streaming": "True", "sample_rate": str(SAMPLE_RATE)}
    for name in names:
        response.model_config.add(model_name=name, parameters=about)
    data: bytes = response.SerializeToString()
    return data
