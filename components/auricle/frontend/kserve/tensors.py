"""The tensors of inference requests and of their answers. No I/O."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from auricle.audio.pcm import to_int16
from auricle.errors import UnsupportedValue
from auricle.quoting import quoted

AUDIO, TEXT, IS_FINAL = "AUDIO", "TEXT", "IS_FINAL"
OUTPUTS = {TEXT: "BYTES", IS_FINAL: "BOOL"}
_WIDTHS = {"FP32": 4, "INT16": 2}
_LENGTH = struct.Struct("<I")  # before each element of a BYTES tensor


def audio_of(request: Any) -> tuple[str, bytes]:
    """Return the datatype of a ModelInferRequest's audio, and its elements as bytes.

    Those of BYTES have no length before them. Raises UnsupportedValue, naming what is wrong.
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
    """Put the wanted outputs into a ModelInferResponse."""
    said = text.encode()
    contents = {TEXT: _LENGTH.pack(len(said)) + said, IS_FINAL: bytes([is_final])}
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
        raise _wrong("content", f"its bytes are no whole number of {datatype} elements")
    return raw


def _listed(datatype: str, contents: Any) -> bytes:
    """Return elements that are fields of the message, not bytes beside it."""
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
        right = f"it must be [{elements}] or [1, {elements}] for so many elements"
        raise _wrong(f"shape [{shown}{', …' if len(shape) > 4 else ''}]", right)


def _wrong(what: str, right: str) -> UnsupportedValue:
    return UnsupportedValue(f"{what} of {AUDIO} cannot be used: {right}", AUDIO)
