"""What can go wrong, as one tree.

AuricleError
├── BadRequest            the client's doing; it is told what would be right
│   ├── ProtocolError     a message out of order or of the wrong form
│   ├── UnsupportedValue  a parameter, or a value of it, that auricle does not have; names it
│   ├── UnknownModel      a model that is not served here
│   ├── UndecodableAudio  a file that holds no audio we can read
│   ├── AudioTooLong      more audio than a recording may have
│   └── TooLarge          more bytes than a request may have
├── Unauthorized          no API key, or one we do not know
├── Forbidden             an API key that may not do this
├── RateLimited           an API key has used what it may use for now; says when to try again
├── CheckpointError       the checkpoint does not fit; says which value and what was expected
├── SettingsError         a setting is unknown or out of range; names the key and the file
├── Overloaded            a bounded queue, slab or slot table is full; try again or elsewhere
├── WindowsMissing        embeddings a decode needs cannot be had; re-encode and retry
├── FeaturesMissing       an encode worker no longer has blocks it was sent; send the whole window
├── WorkerUnavailable     a remote worker died or cannot be reached; try another
├── TransferFailed        a NIXL read failed or did not end in time
└── DeadlineExceeded      a wait ran out; says what was waited for
"""

from __future__ import annotations

from collections.abc import Iterable

UNFORESEEN = "internal error; see the frontend's log"


class AuricleError(Exception):
    """Base of all errors; `code` is what clients and metrics see."""

    code = "internal"
    retryable = False


class BadRequest(AuricleError):
    """The request is wrong; repeating it will not help."""

    code = "bad_request"


class ProtocolError(BadRequest):
    """A message out of order or of the wrong form."""

    code = "protocol"


class UnsupportedValue(BadRequest):
    """`param` names the parameter."""

    code = "unsupported_value"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class UnknownModel(BadRequest):
    """A model that is not served here."""

    code = "model_not_found"

    def __init__(self, wanted: str, served: Iterable[str]) -> None:
        known = ", ".join(sorted(served))
        super().__init__(f"the model {wanted!r} does not exist; served here: {known}")


class UndecodableAudio(BadRequest):
    """A file that holds no audio we can read."""

    code = "undecodable_audio"


class AudioTooLong(BadRequest):
    """More audio than a recording may have, or more work to decode it than is allowed."""

    code = "audio_too_long"


class TooLarge(BadRequest):
    """More bytes than a request may have."""

    code = "too_large"


class Unauthorized(AuricleError):
    """No API key, or one we do not know."""

    code = "invalid_api_key"


class Forbidden(AuricleError):
    """An API key that may not do this."""

    code = "forbidden"


class RateLimited(AuricleError):
    """An API key has used what it may use for now."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class CheckpointError(AuricleError):
    """A checkpoint that does not fit what the code can run."""

    code = "checkpoint"


class SettingsError(AuricleError):
    """A setting that is unknown, missing or out of range."""

    code = "settings"


class Overloaded(AuricleError):
    """Something bounded is full."""

    code = "overloaded"
    retryable = True

    def __init__(self, message: str, retry_after_seconds: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class WindowsMissing(AuricleError):
    """Embeddings of `keys` are not to be had where they were said to be."""

    code = "windows_missing"
    retryable = True

    def __init__(self, keys: tuple[str, ...], why: str) -> None:
        super().__init__(f"{len(keys)} window(s) unavailable: {why}")
        self.keys = keys


class FeaturesMissing(AuricleError):
    """Conv outputs of blocks `keys` are not on this encode worker (any more)."""

    code = "features_missing"
    retryable = True

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(f"{len(keys)} block(s) of features are not here; send the whole window")
        self.keys = keys


class WorkerUnavailable(AuricleError):
    """A worker of another component died or does not answer."""

    code = "unavailable"
    retryable = True


class TransferFailed(AuricleError):
    """A NIXL read failed, was refused, or did not end in time."""

    code = "transfer_failed"
    retryable = True


class DeadlineExceeded(AuricleError):
    """A wait ran out."""

    code = "deadline"
    retryable = True


_BY_CODE: dict[str, type[AuricleError]] = {
    cls.code: cls
    for cls in (
        BadRequest,
        ProtocolError,
        UndecodableAudio,
        AudioTooLong,
        CheckpointError,
        SettingsError,
        Overloaded,
        WorkerUnavailable,
        TransferFailed,
        DeadlineExceeded,
    )
}


def from_code(
    code: str, message: str, keys: tuple[str, ...] = (), retry_after_seconds: float = 0.0
) -> AuricleError:
    """The error that a remote component reported as `code`."""
    if code == Overloaded.code and retry_after_seconds:
        return Overloaded(message, retry_after_seconds)
    if code == WindowsMissing.code:
        return WindowsMissing(keys, message)
    if code == FeaturesMissing.code:
        return FeaturesMissing(keys)
    return _BY_CODE.get(code, AuricleError)(message)
