"""The answers to inference requests. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from auricle.errors import AuricleError
from auricle.frontend.doors.rpc.schema import message
from auricle.frontend.kserve.asking import VERSION, Asked
from auricle.frontend.kserve.tensors import set_outputs
from auricle.frontend.recordings.transcriber import Segment

PACKAGE = "inference"
_LARGEST_INT64 = (1 << 63) - 1


def whole_text(asked: Asked, segments: Sequence[Segment]) -> bytes:
    """Return the answer to ModelInfer: the texts of the recording's segments."""
    response = _response(asked)
    set_outputs(response, asked.outputs, " ".join(one.text for one in segments), is_final=True)
    data: bytes = response.SerializeToString()
    return data


def heard(asked: Asked, text: str, *, is_final: bool, last: bool, warnings: Sequence[str]) -> bytes:
    """Return a response of a stream: the text of a segment.

    `asked` is the request that was heard last, `last` the sequence's last response.
    """
    response = _response(asked)
    _mark(response, asked, last=last)
    if warnings:
        response.parameters["warnings"].string_param = "; ".join(warnings)
    set_outputs(response, asked.outputs, text, is_final=is_final)
    data: bytes = message(f"{PACKAGE}.ModelStreamInferResponse")(
        infer_response=response
    ).SerializeToString()
    return data


def failed(asked: Asked, error: AuricleError) -> bytes:
    """Return a stream's response to a request, or to a sequence, that failed."""
    response = _response(asked)
    _mark(response, asked, last=True)
    response.parameters["code"].string_param = error.code
    words = error.for_client
    if seconds := math.ceil(error.retry_after_seconds):
        response.parameters["retry_after"].int64_param = seconds
        words += f"; come again in {seconds} s"
    data: bytes = message(f"{PACKAGE}.ModelStreamInferResponse")(
        error_message=words, infer_response=response
    ).SerializeToString()
    return data


def _response(asked: Asked) -> Any:
    return message(f"{PACKAGE}.ModelInferResponse")(
        model_name=asked.model, model_version=VERSION, id=asked.request
    )


def _mark(response: Any, asked: Asked, *, last: bool) -> None:
    """Say of which sequence a response is, and whether it is its last."""
    response.parameters["triton_final_response"].bool_param = last
    if isinstance(asked.sequence, str):
        response.parameters["sequence_id"].string_param = asked.sequence
    elif asked.sequence is not None:
        kind = "int64_param" if asked.sequence <= _LARGEST_INT64 else "uint64_param"
        setattr(response.parameters["sequence_id"], kind, asked.sequence)
