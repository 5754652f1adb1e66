"""Errors as gRPC statuses, with the details that gRPC's users expect. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusProto

from auricle.errors import AuricleError, Overloaded

_DOMAIN = "auricle"
Metadata = tuple[tuple[str, str | bytes], ...]


class Code(IntEnum):
    """The codes that are sent; their names are gRPC's."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    413: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
    507: Code.RESOURCE_EXHAUSTED,
}


@dataclass(frozen=True)
class Status:
    """How a call ends that failed; `metadata` follows it."""

    code: Code
    message: str
    metadata: Metadata


def status_of(error: AuricleError, *, leaving: bool = False) -> Status:
    """Return the status of an error. A server that is `leaving` is not full but unavailable.

    Its details are ErrorInfo, whose reason is the error's code, and RetryInfo if the error says
    when to retry; clients without the library that reads details find `retry-after`, in seconds.
    """
    code = _CODES.get(error.http_status, Code.INTERNAL)
    if isinstance(error, Overloaded) and not leaving:
        code = Code.RESOURCE_EXHAUSTED
    status = StatusProto(code=code, message=error.for_client)
    param = {} if error.param is None else {"param": error.param}
    status.details.add().Pack(ErrorInfo(reason=error.code, domain=_DOMAIN, metadata=param))
    metadata: Metadata = ()
    if seconds := math.ceil(error.retry_after_seconds):
        retry = RetryInfo()
        retry.retry_delay.FromSeconds(seconds)
        status.details.add().Pack(retry)
        metadata = (("retry-after", str(seconds)),)
    return Status(
        code,
        error.for_client,
        (*metadata, ("grpc-status-details-bin", status.SerializeToString())),
    )
