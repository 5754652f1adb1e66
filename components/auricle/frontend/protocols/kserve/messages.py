"""The messages of inference: requests, their tensors and options, and responses. No I/O.

Options that change the text are honoured or refused. Others are accepted, and `warnings` name them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import field
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import to_int16
from auricle.checkpoints.languages import spoken_language
from auricle.config.frontend import SilenceMs
from auricle.core.errors import AuricleError, UnsupportedValue
from auricle.core.limits import EVENT_ID, MODEL, check
from auricle.core.sanitize import quoted
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.frontend.transport.grpc.schema import message
from auricle.frontend.transport.options import (
    Context,
    Language,
    Others,
    SampleRate,
    names,
    read,
    text,
)

AUDIO, TEXT, IS_FINAL = "AUDIO", "TEXT", "IS_FINAL"
OUTPUTS = {TEXT: "BYTES", IS_FINAL: "BOOL"}
_WIDTHS = {"FP32": 4, "INT16": 2}
_LENGTH = struct.Struct("<I")  # before each element of a BYTES tensor


def audio_of(request: Any) -> tuple[str, bytes]:
    """Return the datatype of a ModelInferRequest's audio, and its elements as bytes.

    Elements of BYTES have no length before them. Raises UnsupportedValue.
    """
    tensor = _only_input(request)
    if tensor.datatype not in (*_WIDTHS, "BYTES"):
        raise _wrong(f"datatype {quoted(tensor.datatype)}", "it must be FP32, INT16 or BYTES")
    for name in tensor.parameters:
        raise _wrong(f"parameter {quoted(name)}", "send the samples themselves")
    if len(request.raw_input_contents) > 1:
        raise UnsupportedValue("raw_input_contents has more entries than there are inputs")
    if request.raw_input_contents:
        content = _raw(tensor.datatype, request.raw_input_contents[0])
    else:
        content = _listed(tensor.datatype, tensor.contents)
    _check_shape(tensor, content)
    return str(tensor.datatype), content


def pcm_of(datatype: str, content: bytes) -> bytes:
    """Return audio as 16-bit little-endian samples. Raises UnsupportedValue."""
    if datatype != "FP32":
        return content
    samples = np.frombuffer(content, "<f4")
    if not np.isfinite(samples).all():
        raise _wrong("content", "it has values that are not finite numbers")
    return to_int16(samples).astype("<i2").tobytes()


def set_outputs(response: Any, wanted: Sequence[str], text: str, *, is_final: bool) -> None:
    data = text.encode()
    contents = {TEXT: _LENGTH.pack(len(data)) + data, IS_FINAL: bytes([is_final])}
    for name in wanted:
        response.outputs.add(name=name, datatype=OUTPUTS[name], shape=[1])
        response.raw_output_contents.append(contents[name])


def _only_input(request: Any) -> Any:
    if not request.inputs:
        raise UnsupportedValue(f"the input {AUDIO} is missing", AUDIO)
    for tensor in request.inputs:
        if tensor.name != AUDIO:
            raise UnsupportedValue(
                f"the input {quoted(tensor.name)} is not supported; the only one is {AUDIO}"
            )
    if len(request.inputs) > 1:
        raise UnsupportedValue(f"the input {AUDIO} was given {len(request.inputs)} times", AUDIO)
    return request.inputs[0]


def _raw(datatype: str, raw: bytes) -> bytes:
    if datatype == "BYTES":
        if len(raw) < _LENGTH.size or _LENGTH.unpack_from(raw)[0] != len(raw) - _LENGTH.size:
            raise _wrong("content", "it must be one element, with its length before it")
        return raw[_LENGTH.size :]
    if len(raw) % _WIDTHS[datatype]:
        raise _wrong("content", f"it must have a whole number of {datatype} elements")
    return raw


def _listed(datatype: str, contents: Any) -> bytes:
    """Return elements that are fields of the tensor, not `raw_input_contents`."""
    if datatype == "BYTES":
        if len(contents.bytes_contents) != 1:
            raise _wrong("content", "it must be one element")
        return bytes(contents.bytes_contents[0])
    if datatype == "FP32":
        return np.array(contents.fp32_contents, "<f4").tobytes()
    values = np.array(contents.int_contents, np.int64)
    samples = values.astype("<i2")
    if not np.array_equal(samples, values):
        raise _wrong("content", "it has values that are not INT16")
    return samples.tobytes()


def _check_shape(tensor: Any, content: bytes) -> None:
    shape = list(tensor.shape)
    elements = 1 if tensor.datatype == "BYTES" else len(content) // _WIDTHS[tensor.datatype]
    if len(shape) not in (1, 2) or shape[:-1] not in ([], [1]) or math.prod(shape) != elements:
        shown = ", ".join(str(size) for size in shape[:4])
        right = f"it must be [{elements}] or [1, {elements}] for {elements} elements"
        raise _wrong(f"shape [{shown}{', …' if len(shape) > 4 else ''}]", right)


def _wrong(what: str, right: str) -> UnsupportedValue:
    return UnsupportedValue(f"{what} of {AUDIO} cannot be used: {right}", AUDIO)


VERSION = "1"  # of the only model
_OTHERS = Others(advisory=("priority", "timeout"))
# Requests nothing new: every sequence ends with a response that is marked as its last.
_IMPLIED = "triton_enable_empty_final_response"


class SpeechOptions(msgspec.Struct, frozen=True):
    """`sample_rate` is in Hz. Without `silence_ms` the server's endpointing applies; with
    `partials` responses have text that may still change."""

    sample_rate: SampleRate = SAMPLE_RATE
    language: Language | None = None
    context: Context = ""
    silence_ms: SilenceMs | None = field(default=None, name="min_silence_ms")
    partials: bool = True


class _Sequence(msgspec.Struct, frozen=True):
    sequence_id: int | Annotated[str, text(EVENT_ID)] | None = None
    sequence_start: bool = False
    sequence_end: bool = False


@dataclass(frozen=True)
class KserveRequest:
    """One request: `request` is its id, `outputs` are the names of the requested outputs.

    `sequence` is the id of its sequence, if any. Only a request that `starts` its sequence has
    `options` of its own.
    """

    model: str
    request: str
    outputs: tuple[str, ...]
    sequence: int | str | None
    starts: bool
    ends: bool
    options: SpeechOptions
    warnings: tuple[str, ...]


def parse_request(request: Any) -> KserveRequest:
    """Parse all fields of a ModelInferRequest but its audio. Raises UnsupportedValue."""
    check("model_name", request.model_name, MODEL)
    check("id", request.id, EVENT_ID)
    if request.model_version not in ("", VERSION):
        raise UnsupportedValue(
            f"model_version {quoted(request.model_version)} does not exist; there is '{VERSION}'",
            "model_version",
        )
    given = {name: _value(parameter) for name, parameter in request.parameters.items()}
    given.pop(_IMPLIED, None)
    honoured, warnings = _OTHERS.sifted(given, (*names(_Sequence), *names(SpeechOptions)))
    sequence = read(_Sequence, honoured)
    if sequence.sequence_id and not sequence.sequence_start:
        for name in names(SpeechOptions):
            if name in honoured:
                raise UnsupportedValue(f"{name} can be sent with sequence_start only", name)
    options = read(SpeechOptions, honoured)
    return KserveRequest(
        request.model_name,
        request.id,
        _outputs(request),
        sequence.sequence_id or None,
        sequence.sequence_start,
        sequence.sequence_end,
        replace(options, language=spoken_language(options.language)),
        tuple(warnings),
    )


def unchecked_request(request: Any) -> KserveRequest:
    """Return the ids of a request that is not checked yet, for the response to an invalid one."""
    given = request.parameters.get("sequence_id")
    sequence = None if given is None else _value(given)
    if not isinstance(sequence, int | str) or isinstance(sequence, bool):
        sequence = None
    elif isinstance(sequence, str):
        sequence = sequence[:EVENT_ID]
    return KserveRequest(
        request.model_name[:MODEL],
        request.id[:EVENT_ID],
        tuple(OUTPUTS),
        sequence or None,
        starts=False,
        ends=False,
        options=SpeechOptions(),
        warnings=(),
    )


def _value(parameter: Any) -> Any:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def _outputs(request: Any) -> tuple[str, ...]:
    for output in request.outputs:
        if output.name not in OUTPUTS:
            raise UnsupportedValue(
                f"the output {quoted(output.name)} is not supported; "
                f"supported: {', '.join(OUTPUTS)}"
            )
        for name in output.parameters:
            raise UnsupportedValue(
                f"the parameter {quoted(name)} of the output {output.name} is not supported"
            )
    wanted = dict.fromkeys(output.name for output in request.outputs)
    return tuple(wanted) or tuple(OUTPUTS)


PACKAGE = "inference"
_LARGEST_INT64 = (1 << 63) - 1


def recording_response(wanted: KserveRequest, segments: Sequence[RecordingSegment]) -> bytes:
    response = _response(wanted)
    set_outputs(response, wanted.outputs, " ".join(one.text for one in segments), is_final=True)
    data: bytes = response.SerializeToString()
    return data


def text_response(
    wanted: KserveRequest, text: str, *, is_final: bool, last: bool, warnings: Sequence[str]
) -> bytes:
    """Return a response of a stream: the text of a segment.

    `wanted` is the last request of the sequence so far, `last` marks the sequence's last response.
    """
    response = _response(wanted)
    _mark(response, wanted, last=last)
    if warnings:
        response.parameters["warnings"].string_param = "; ".join(warnings)
    set_outputs(response, wanted.outputs, text, is_final=is_final)
    data: bytes = message(f"{PACKAGE}.ModelStreamInferResponse")(
        infer_response=response
    ).SerializeToString()
    return data


def failure_response(wanted: KserveRequest, error: AuricleError) -> bytes:
    """Return a stream's response to a request, or to a sequence, that failed."""
    response = _response(wanted)
    _mark(response, wanted, last=True)
    response.parameters["code"].string_param = error.code
    words = error.for_client
    if seconds := math.ceil(error.retry_after_seconds):
        response.parameters["retry_after"].int64_param = seconds
        words += f"; come again in {seconds} s"
    data: bytes = message(f"{PACKAGE}.ModelStreamInferResponse")(
        error_message=words, infer_response=response
    ).SerializeToString()
    return data


def _response(wanted: KserveRequest) -> Any:
    return message(f"{PACKAGE}.ModelInferResponse")(
        model_name=wanted.model, model_version=VERSION, id=wanted.request
    )


def _mark(response: Any, wanted: KserveRequest, *, last: bool) -> None:
    """Add the id of the response's sequence, and whether the response is its last."""
    response.parameters["triton_final_response"].bool_param = last
    if isinstance(wanted.sequence, str):
        response.parameters["sequence_id"].string_param = wanted.sequence
    elif wanted.sequence is not None:
        kind = "int64_param" if wanted.sequence <= _LARGEST_INT64 else "uint64_param"
        setattr(response.parameters["sequence_id"], kind, wanted.sequence)
