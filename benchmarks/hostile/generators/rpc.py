"""gRPC calls: messages with bent fields and broken bytes, and bytes that are no HTTP/2."""

from __future__ import annotations

import random
from typing import Any

from auricle.frontend.transport.grpc.schema import message
from benchmarks.hostile.generators.values import INTEGERS, chance, mutated, rubbish, text

_RIVA = "nvidia.riva.asr"
RECOGNITION = f"{_RIVA}.RivaSpeechRecognition"
INFERENCE = "inference.GRPCInferenceService"
_HEALTH = "grpc.health.v1.Health"
_REFLECTION = "grpc.reflection.v1.ServerReflection"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# What a message has no place for: an int32 has 32 bits.
_INT32 = tuple(number for number in INTEGERS if -(2**31) <= number < 2**31)
_METADATA = (
    ("authorization", "Bearer nobody's"),
    ("authorization", "Basic dXNlcjpwYXNz"),
    ("x-forwarded-for", "10.0.0.1, ' OR 1=1"),
    ("traceparent", "00-zz-zz-01"),
    ("retry-after", "-1"),
    ("x-long", "x" * 4_000),
)


def call(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A call: its `method`, its `messages`, its `metadata`, and whether the client `ends` it.

    Or bytes for the port, in `raw`.
    """
    if chance(rng, 0.1):
        start = _PREFACE if chance(rng, 0.6) else b""
        return "raw", {"raw": start + rubbish(rng, 200)}
    name, make = rng.choice(_CALLS)
    messages = make(rng)
    if chance(rng, 0.4) and messages:
        at = rng.randrange(len(messages))
        messages[at] = mutated(rng, messages[at])
    return name, {
        "method": f"/{name}",
        "messages": messages,
        "metadata": [rng.choice(_METADATA)] if chance(rng, 0.2) else [],
        "ends": chance(rng, 0.85),
    }


def _recording(rng: random.Random) -> list[bytes]:
    made = message(f"{_RIVA}.RecognizeRequest")(config=_config(rng), audio=rubbish(rng, 3_200))
    return [made.SerializeToString()]


def _live(rng: random.Random) -> list[bytes]:
    kind = message(f"{_RIVA}.StreamingRecognizeRequest")
    streaming = {"config": _config(rng), "interim_results": chance(rng, 0.5)}
    first = kind(streaming_config=streaming)
    if chance(rng, 0.1):
        first.runtime_config[_short(rng)] = _short(rng)
    if chance(rng, 0.3):
        first.id.value = text(rng)
    audio = [kind(audio_content=rubbish(rng, 1_601)) for _ in range(rng.randrange(4))]
    made = [first, *audio]
    if chance(rng, 0.1):
        rng.shuffle(made)
    if chance(rng, 0.1):
        made.append(first)
    return [one.SerializeToString() for one in made]


def _config(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {"encoding": 1, "sample_rate_hertz": 16_000}
    for name in rng.sample(sorted(_FIELDS), rng.choice((0, 1, 1, 2, 3))):
        config[name] = _FIELDS[name](rng)
    return config


def _integer(rng: random.Random) -> int:
    return rng.choice(_INT32)


def _short(rng: random.Random) -> str:
    return text(rng)[:300]


def _contexts(rng: random.Random) -> list[dict[str, Any]]:
    boosts = (0.0, 4.0, -1.0, float("nan"), float("inf"))
    return [
        {"phrases": [text(rng) for _ in range(rng.randrange(4))], "boost": rng.choice(boosts)}
        for _ in range(rng.randrange(3))
    ]


_FIELDS: dict[str, Any] = {
    "encoding": lambda rng: rng.choice((0, 1, 2, 3, 4, 7, 20, *_INT32)),
    "sample_rate_hertz": _integer,
    "language_code": text,
    "max_alternatives": _integer,
    "profanity_filter": lambda _rng: True,
    "speech_contexts": _contexts,
    "audio_channel_count": _integer,
    "enable_word_time_offsets": lambda _rng: True,
    "enable_separate_recognition_per_channel": lambda _rng: True,
    "model": text,
    "diarization_config": lambda rng: {"max_speaker_count": _integer(rng)},
    "custom_configuration": lambda rng: {_short(rng): _short(rng)},
    "endpointing_config": lambda rng: {"stop_history": _integer(rng), "stop_threshold": 1e38},
}


def _asked_for_config(rng: random.Random) -> list[bytes]:
    made = message(f"{_RIVA}.RivaSpeechRecognitionConfigRequest")(model_name=text(rng))
    return [made.SerializeToString()]


def _inferred(rng: random.Random) -> list[bytes]:
    """A sequence, whose marks are mostly where they belong."""
    count = rng.randrange(1, 4)
    return [_inference(rng, {**_SEQUENCE, **_marks(number, count)}) for number in range(count)]


def _inferred_recording(rng: random.Random) -> list[bytes]:
    return [_inference(rng, {})]


def _marks(number: int, count: int) -> dict[str, Any]:
    first, last = number == 0, number == count - 1
    return {"sequence_start": {"bool_param": first}, "sequence_end": {"bool_param": last}}


def _inference(rng: random.Random, parameters: dict[str, Any]) -> bytes:
    audio = rubbish(rng, 3_200)
    tensor: dict[str, Any] = {"name": "AUDIO", "datatype": "INT16", "shape": [len(audio) // 2]}
    fields: dict[str, Any] = {"model_name": "demo", "raw_input_contents": [audio]}
    for name in rng.sample(_PARAMETERS, rng.choice((0, 0, 1, 2))):
        parameters[name] = _parameter(rng)
    if chance(rng, 0.4):
        tensor |= rng.choice(_TENSORS)(rng)
    if chance(rng, 0.2):
        fields |= rng.choice(_REQUESTS)(rng)
    kind = message("inference.ModelInferRequest")
    made: bytes = kind(inputs=[tensor], parameters=parameters, **fields).SerializeToString()
    return made


def _parameter(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        (
            {"bool_param": chance(rng, 0.5)},
            {"int64_param": _integer(rng)},
            {"string_param": text(rng)},
            {"double_param": float("nan")},
            {"uint64_param": 2**64 - 1},
            {},
        )
    )


_SEQUENCE = {"sequence_id": {"int64_param": 7}}
_PARAMETERS = (
    *("sequence_id", "sequence_start", "sequence_end", "sample_rate", "language", "context"),
    *("min_silence_ms", "partials", "priority", "timeout", "binary_data_output"),
)
_TENSORS: tuple[Any, ...] = (
    lambda rng: {"name": _short(rng)},
    lambda rng: {"datatype": rng.choice(("FP32", "BYTES", "FP64", "", _short(rng)))},
    lambda rng: {"shape": [_integer(rng) for _ in range(rng.randrange(5))]},
    lambda _rng: {"parameters": {"shared_memory_region": {"string_param": "../region"}}},
    lambda rng: {"contents": {"int_contents": [_integer(rng)], "bytes_contents": [b"x"]}},
)
_REQUESTS: tuple[Any, ...] = (
    lambda rng: {"model_name": text(rng)},
    lambda rng: {"model_version": _short(rng)},
    lambda rng: {"id": text(rng)},
    lambda rng: {"outputs": [{"name": _short(rng)}]},
    lambda rng: {"raw_input_contents": [rubbish(rng, 200) for _ in range(rng.randrange(3))]},
)


def _any(rng: random.Random) -> list[bytes]:
    return [rubbish(rng, 100) for _ in range(rng.randrange(3))]


_CALLS: tuple[tuple[str, Any], ...] = (
    *[(f"{RECOGNITION}/StreamingRecognize", _live)] * 4,
    *[(f"{RECOGNITION}/Recognize", _recording)] * 3,
    (f"{RECOGNITION}/GetRivaSpeechRecognitionConfig", _asked_for_config),
    *[(f"{INFERENCE}/ModelStreamInfer", _inferred)] * 3,
    *[(f"{INFERENCE}/ModelInfer", _inferred_recording)] * 2,
    (f"{INFERENCE}/ModelMetadata", _any),
    (f"{RECOGNITION}/Missing", _any),
    (f"{_HEALTH}/Check", _any),
    (f"{_REFLECTION}/ServerReflectionInfo", _any),
)
