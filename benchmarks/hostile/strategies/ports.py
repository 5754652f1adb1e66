"""Other TCP ports: gRPC (from protos/), AudioSocket, Wyoming, and the ports inside the graph."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from auricle.frontend.protocols.audiosocket import AUDIO_RATES, AudioSocketKind
from auricle.frontend.protocols.kserve.messages import PACKAGE as KSERVE
from auricle.frontend.protocols.riva.service import PACKAGE as RIVA
from auricle.frontend.protocols.wyoming import AudioFormat, Ping, Transcribe
from auricle.frontend.transport.grpc.frames import PREFACE, frame
from auricle.frontend.transport.grpc.schema import message
from auricle_testing import http2
from benchmarks.hostile.inputs import Call, Stream
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.values import Draw, chance, of_type, pick, some

_KINDS = (*map(int, AudioSocketKind), *map(int, AUDIO_RATES), 0x10, 0xFF)
_EVENTS = {
    "transcribe": of_type(Transcribe),
    "audio-start": of_type(AudioFormat),
    "audio-chunk": of_type(AudioFormat),
    "audio-stop": st.just({"timestamp": 0}),
    "ping": of_type(Ping),
    "describe": st.just({}),
    "run-pipeline": st.just({"start_stage": "asr"}),
}
# HTTP, ZeroMQ, TLS, HTTP/2, NATS, lengths, SSH, Redis.
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_GREETINGS = (
    *(b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" + bytes(8) + b"\x7f\x03\x00NULL"),
    *(b"\x16\x03\x01\x02\x00\x01", _HTTP2, b"INFO {}\r\n", b"CONNECT {}\r\n", bytes(4)),
    *(b"\xff" * 8, b"SSH-2.0-x\r\n", b"*1\r\n$4\r\nPING\r\n"),
)


@st.composite
def audiosocket(draw: Draw) -> Stream:
    """A call: its identity and frames of audio, mostly with broken bytes."""
    kinds = [1] if chance(draw, 80) else []
    kinds += [pick(draw, _KINDS) for _ in some(draw, 5)]
    data = b""
    for kind in kinds:
        payload = draw(v.noise(16, 16) if kind == 1 else v.noise(320))
        data += bytes([kind]) + len(payload).to_bytes(2, "big") + payload
    return Stream("audiosocket", (v.wrong(draw, data) if chance(draw, 60) else data,))


@st.composite
def wyoming(draw: Draw) -> Stream:
    """The events of an utterance, one of them with a wrong header or wrong fields."""
    names = [name for name in _EVENTS if chance(draw, 70)] or ["describe"]
    names += [pick(draw, ("audio-stop", "audio-chunk")) for _ in some(draw, 3)]  # after the end
    broken, sent = pick(draw, names), b""
    for name in names:
        payload = draw(v.noise(640)) if name == "audio-chunk" else b""
        body = draw(_EVENTS[name])
        data = draw(v.json_of(v.bent(st.just(body)))) if name == broken else v.as_json(body)
        header = {"type": name, "data_length": len(data), "payload_length": len(payload)}
        odd = v.json_of(v.bent(st.just(header)))
        head = draw(odd) if name == broken and chance(draw, 40) else v.as_json(header)
        sent += head + b"\n" + data + payload
    return Stream("wyoming", (sent,))


@st.composite
def garbage(draw: Draw) -> Stream:
    """Bytes for a port inside the graph: greetings of other protocols, and wrong lengths."""
    what, greeting = draw(st.integers(0, 3)), pick(draw, _GREETINGS)
    if what == 0:
        data = greeting + draw(v.noise(2_000))
    elif what == 1:
        size = (pick(draw, v.INTEGERS) % 2**64).to_bytes(8, pick(draw, ("big", "little")))
        data = size[pick(draw, (0, 4)) :] + draw(v.noise(200))
    elif what == 2:
        data = greeting + v.packed(draw(v.anything))
    else:
        data = v.wrong(draw, greeting + bytes(64))
    return Stream("ports", (data,), draw(st.floats(0, 0.999)))


# gRPC, and the frames of HTTP/2 below it.
RECOGNITION, INFERENCE = f"{RIVA}.RivaSpeechRecognition", f"{KSERVE}.GRPCInferenceService"
WATCH = "grpc.health.v1.Health/Watch"
REFLECTION = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
_METADATA = (
    *(("authorization", "Bearer invalid"), ("authorization", "Basic dXNlcjpwYXNz")),
    *(("x-forwarded-for", "10.0.0.1, ' OR 1=1"), ("traceparent", "00-zz-zz-01")),
    *(("retry-after", "-1"), ("x-long", "x" * 4_000)),
)
_PARAMETERS = (
    *("sequence_id", "sequence_start", "sequence_end", "sample_rate", "language", "context"),
    *("min_silence_ms", "partials", "priority", "timeout", "binary_data_output"),
)
_BOUNDS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64),
}


def _value(draw: Draw, field: FieldDescriptor) -> Any:
    """Any value that a field can carry, with messages as dictionaries."""
    if field.message_type is not None:
        return _fields(draw, field.message_type)
    if (bounds := _BOUNDS.get(field.cpp_type)) is not None:
        return pick(draw, (1, 3, *(one for one in v.INTEGERS if bounds[0] <= one < bounds[1])))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        return draw(v.noise(200)) if is_bytes else draw(v.texts)[:5_000]
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return draw(st.booleans())
    return pick(draw, (4.0, *v.FLOATS))


def _fields(draw: Draw, kind: Descriptor, most: int = 2) -> dict[str, Any]:
    """Values of some fields of a message."""
    made: dict[str, Any] = {}
    for _ in some(draw, most):
        field = pick(draw, kind.fields)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            made[field.name] = {_value(draw, key): _value(draw, value)}
        elif field.is_repeated:
            made[field.name] = [_value(draw, field) for _ in some(draw, 3)]
        else:
            made[field.name] = _value(draw, field)
    return made


def _filled(draw: Draw, name: str, good: dict[str, Any], percent: int) -> dict[str, Any]:
    """The valid fields of a message, in `percent` of cases with others."""
    return good | (_fields(draw, message(name).DESCRIPTOR, 3) if chance(draw, percent) else {})


def _requests(draw: Draw, method: str, count: int) -> tuple[str, list[dict[str, Any]]]:
    """The type and the messages of a call, `count` of them if it streams."""
    audio = [draw(v.noise(3_200)) for _ in range(count)]
    if method.startswith("Model"):
        sent = []
        for number, data in enumerate(audio):
            parameters: dict[str, Any] = {}
            if method == "ModelStreamInfer":
                parameters = {"sequence_id": {"int64_param": 7}}
                parameters["sequence_start"] = {"bool_param": number == 0}
                parameters["sequence_end"] = {"bool_param": number == count - 1}
            if chance(draw, 40):
                odd = message(f"{KSERVE}.InferParameter").DESCRIPTOR
                parameters[pick(draw, _PARAMETERS)] = _fields(draw, odd, 1)
            tensor = {"name": "AUDIO", "datatype": "INT16", "shape": [len(data) // 2]}
            tensor = _filled(draw, f"{KSERVE}.ModelInferRequest.InferInputTensor", tensor, 40)
            good = {"model_name": v.MODEL, "raw_input_contents": [data], "inputs": [tensor]}
            sent.append(good | {"parameters": parameters})
        return f"{KSERVE}.ModelInferRequest", sent
    config = {"encoding": 1, "sample_rate_hertz": 16_000}
    config = _filled(draw, f"{RIVA}.RecognitionConfig", config, 70)
    if method == "Recognize":
        return f"{RIVA}.RecognizeRequest", [{"config": config, "audio": audio[0]}]
    first = {"streaming_config": {"config": config, "interim_results": draw(st.booleans())}}
    return f"{RIVA}.StreamingRecognizeRequest", [first, *({"audio_content": one} for one in audio)]


_METHODS = (
    *[f"{RECOGNITION}/StreamingRecognize"] * 4,
    *[f"{RECOGNITION}/Recognize"] * 3,
    *[f"{INFERENCE}/ModelStreamInfer"] * 3,
    *[f"{INFERENCE}/ModelInfer"] * 2,
)
_OTHERS = (
    *(f"{RECOGNITION}/GetRivaSpeechRecognitionConfig", f"{RECOGNITION}/Missing"),
    *(f"{INFERENCE}/ModelMetadata", "grpc.health.v1.Health/Check"),
    REFLECTION,
)


@st.composite
def calls(draw: Draw) -> Call | Stream:
    """A call of any method with odd fields, broken bytes or a wrong order; or bytes without one."""
    if chance(draw, 10):
        return Stream("grpc", (pick(draw, (_HTTP2, b"")) + draw(v.noise(200)),))
    name = pick(draw, (*_METHODS, *_OTHERS))
    sent = [draw(v.noise(100)) for _ in some(draw, 2)]
    if name in _METHODS:
        method = name.partition("/")[2]
        count = draw(st.integers(1, 3)) if "Stream" in method else 1
        kind, requests = _requests(draw, method, count)
        sent = [message(kind)(**_filled(draw, kind, one, 20)).SerializeToString()
                for one in requests]  # fmt: skip
        if count > 1 and chance(draw, 15):
            sent = list(draw(st.permutations([*sent, sent[0]])))
    if sent and chance(draw, 40):
        at = draw(st.integers(0, len(sent) - 1))
        sent[at] = v.wrong(draw, sent[at])
    metadata = (pick(draw, _METADATA),) if chance(draw, 20) else ()
    return Call(f"/{name}", tuple(sent), metadata, chance(draw, 85))


_FRAME_KINDS = (*range(11), 0xFF)
_STREAMS = (0, 1, 1, 1, 2, 3, 5, 2**31 - 1)


def _payload(draw: Draw) -> bytes:
    """The payload of any frame: a call's headers, a message, settings, or bytes without meaning."""
    begun = http2.call(1, pick(draw, (WATCH, REFLECTION, f"{RECOGNITION}/StreamingRecognize")))
    return pick(draw, (
        lambda: begun[9:],
        lambda: v.wrong(draw, begun[9:]),
        lambda: http2.prefix(pick(draw, (0, 5, 2**16, 2**32 - 1)), compressed=chance(draw, 20)),
        lambda: draw(st.integers(1, 9)).to_bytes(2, "big") + pick(draw, v.INTEGERS[:3]).to_bytes(
            4, "big", signed=True),
        lambda: draw(v.noise(9)),
        lambda: draw(v.noise(2_000)),
    ))()  # fmt: skip


@st.composite
def frames(draw: Draw) -> Stream:
    """Frames of HTTP/2 with any kind, flags and stream, some after a valid call."""
    sent = PREFACE + http2.EMPTY_SETTINGS if chance(draw, 95) else b""
    if chance(draw, 40):
        sent += http2.call(1, pick(draw, (WATCH, REFLECTION)))
    for _ in some(draw, 12, 1):
        kind, flags = pick(draw, _FRAME_KINDS), pick(draw, (0, 1, 4, 5, 8, 0x20, 0xFF))
        one = frame(kind, flags, pick(draw, _STREAMS), _payload(draw))
        if chance(draw, 10):  # a wrong size
            one = draw(st.integers(0, 2**24 - 1)).to_bytes(3, "big") + one[3:]
        sent += one * pick(draw, (1, 1, 1, 50))
    return Stream("grpc", (v.wrong(draw, sent) if chance(draw, 20) else sent,))
