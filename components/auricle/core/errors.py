"""All errors, with their code, HTTP status, close code and message for clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from auricle.core.sanitize import quoted

UNFORESEEN = "internal error; see the frontend's log"

# WebSocket close codes (RFC 6455 and IANA's registry) that errors end a connection with.
CLOSE_REFUSED = 1008  # an error of the client
CLOSE_INTERNAL = 1011
CLOSE_TRY_LATER = 1013


class AuricleError(Exception):
    """Base of all errors; clients, metrics and other components see `code`.

    `retryable`: the same request may succeed elsewhere or later. `retry_after_seconds` is 0 if
    unknown. `keys` are the affected windows or blocks. The message is for logs: it may name hosts,
    files and errors of libraries. Clients receive `public_message`
    instead; None if the message itself is written for clients. `openai_code` is the code of
    OpenAI's realtime protocol; None if it is `code`.
    """

    code = "internal"
    http_status = 500
    close_code = CLOSE_INTERNAL
    retryable = False
    retry_after_seconds = 0.0
    keys: tuple[str, ...] = ()
    param: str | None = None
    openai_code: str | None = None
    public_message: str | None = UNFORESEEN
    logged = False  # its session was logged and counted as ended

    @property
    def for_client(self) -> str:
        """The message for the client."""
        return str(self) if self.public_message is None else self.public_message


class BadRequest(AuricleError):
    """The client's request is wrong; repeating it will not help."""

    code = "bad_request"
    openai_code = "invalid_value"
    http_status = 400
    close_code = CLOSE_REFUSED
    public_message = None


class ProtocolError(BadRequest):
    """A message out of order or of another form."""

    code = "protocol"
    openai_code = "invalid_event"


class UnknownSession(ProtocolError):
    """A session that is not open on this processor: it has ended, or has moved."""

    code = "unknown_session"


class UnsupportedValue(BadRequest):
    """An unsupported parameter or value; `param` names it."""

    code = "unsupported_value"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class UnknownModel(BadRequest):
    """A model that is not served here."""

    code = openai_code = "model_not_found"
    http_status = 404

    def __init__(self, wanted: str, served: Iterable[str]) -> None:
        known = ", ".join(sorted(served))
        super().__init__(f"the model {quoted(wanted)} does not exist; served here: {known}")


class UnknownHost(BadRequest):
    """A request for a host that this server is not."""

    code = "unknown_host"
    http_status = 421


class UnknownPath(BadRequest):
    """A WebSocket handshake for a path that has none."""

    code = "unknown_path"
    http_status = 404

    def __init__(self, path: str, known: Iterable[str]) -> None:
        super().__init__(
            f"no WebSocket is at {quoted(path)}; they are at {', '.join(sorted(known))}"
        )


class NoJobs(BadRequest):
    """A request for jobs at a server that has none."""

    code = "no_jobs"
    http_status = 404

    def __init__(self) -> None:
        super().__init__(
            "this server runs no jobs, because Frontend.jobs_folder is not set; send the recording "
            "to /v1/audio/transcriptions and wait for the answer"
        )


class UnknownJob(BadRequest):
    """A job that does not exist, has expired, or is another client's."""

    code = "job_not_found"
    http_status = 404


class JobNotDone(BadRequest):
    """The answer of a job that has not ended."""

    code = "job_not_done"
    http_status = 409
    retry_after_seconds = 2.0


class JobFailed(BadRequest):
    """A job that has ended without an answer; the message has the reason."""

    code = "job_failed"
    http_status = 409


class UpgradeRequired(BadRequest):
    """A plain HTTP request for a path that is a WebSocket's."""

    code = "upgrade_required"
    http_status = 426


class UndecodableAudio(BadRequest):
    """A file without readable audio."""

    code = "undecodable_audio"


class AudioTooLong(BadRequest):
    """A recording with more audio than allowed."""

    code = "audio_too_long"
    http_status = 413


class TooCostly(BadRequest):
    """A recording whose decoding exceeds a limit, which the message names."""

    code = "too_costly"
    http_status = 413


class TooLarge(BadRequest):
    """A request with more bytes than allowed."""

    code = "too_large"
    http_status = 413


class TooSlow(BadRequest):
    """A request that arrives too slowly."""

    code = "too_slow"
    http_status = 408


class HeadTooLarge(BadRequest):
    """A request line and headers larger than allowed."""

    code = "too_large"
    http_status = 431


class Unauthorized(AuricleError):
    """A missing or unknown API key."""

    code = "invalid_api_key"
    http_status = 401
    close_code = CLOSE_REFUSED
    public_message = None


class Forbidden(AuricleError):
    """An API key without this permission."""

    code = "forbidden"
    http_status = 403
    close_code = CLOSE_REFUSED
    public_message = None


class RateLimited(AuricleError):
    """An API key has reached a limit."""

    code = "rate_limited"
    openai_code = "rate_limit_exceeded"
    http_status = 429
    close_code = CLOSE_TRY_LATER
    public_message = None

    def __init__(self, message: str, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UntrustedCaller(AuricleError):
    """A message between processes that was not signed with the deployment's secret.

    Also a message that is too old or was received before; `reason` has a word for each. Retryable,
    because the secret may just have changed.
    """

    code = "untrusted_caller"
    http_status = 503
    close_code = CLOSE_TRY_LATER
    retryable = True
    retry_after_seconds = 5.0
    reason = ""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CheckpointError(AuricleError):
    """An incompatible checkpoint; the message has the value and the expected one."""

    code = "checkpoint"


class SettingsError(AuricleError):
    """An unknown, missing or invalid setting; the message names the key and the file."""

    code = "settings"


class Overloaded(AuricleError):
    """A bounded queue, slab or slot table is full; try again, or elsewhere."""

    code = "overloaded"
    http_status = 503
    close_code = CLOSE_TRY_LATER
    public_message = None
    retryable = True

    def __init__(self, message: str, retry_after_seconds: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class StorageFull(AuricleError):
    """A disk has no room for the client's data."""

    code = "storage_full"
    http_status = 507
    close_code = CLOSE_TRY_LATER
    public_message = None
    retryable = True
    retry_after_seconds = 60.0


class WindowsMissing(AuricleError):
    """The embeddings of `keys` are not at their recorded location; encode them again."""

    code = "windows_missing"
    public_message = "audio could not be passed on to a worker of this server; try again"
    retryable = True

    def __init__(self, keys: tuple[str, ...], why: str) -> None:
        super().__init__(f"{len(keys)} window(s) unavailable: {why}")
        self.keys = keys


class WindowsSpoiled(WindowsMissing):
    """The slots of the windows `keys` have other content; evict them and encode again."""

    code = "windows_spoiled"


class FeaturesMissing(AuricleError):
    """An encode worker no longer has the conv outputs of blocks `keys`; send whole windows."""

    code = "features_missing"
    retryable = True

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(f"{len(keys)} block(s) of features are not here; send the whole window")
        self.keys = keys


class WorkerUnavailable(AuricleError):
    """A worker of another component died or cannot be reached; try another."""

    code = "unavailable"
    public_message: str | None = "no worker of this server can be reached at the moment; try again"
    http_status = 503
    retryable = True
    retry_after_seconds = 5.0

    def __init__(self, message: str, *, for_clients: bool = False) -> None:
        """With `for_clients` the message is written for clients."""
        super().__init__(message)
        if for_clients:
            self.public_message = None


class OtherWireVersion(AuricleError):
    """A request in a version of the wire that its receiver does not accept."""

    code = "other_wire_version"
    reason = "wire_version"


class PoolMissing(WorkerUnavailable):
    """No worker of these `pools` is running, which a request needs."""

    def __init__(self, message: str, pools: Sequence[str]) -> None:
        super().__init__(message, for_clients=True)
        self.pools = frozenset(pools)


class ProcessFailed(AuricleError):
    """A part of this process has ended or hangs, so that the process must be restarted."""

    code = "process_failed"


class RegistrationFailed(AuricleError):
    """NIXL does not register memory for transfers."""


class TransferFailed(AuricleError):
    """A NIXL read failed, was refused, or did not end in time."""

    code = "transfer_failed"
    public_message = WindowsMissing.public_message
    retryable = True


class DeadlineExceeded(AuricleError):
    """A wait exceeded its deadline; the message names its object."""

    code = "deadline"
    http_status = 504
    close_code = CLOSE_REFUSED
    public_message = None
    retryable = True


def from_code(
    code: str, message: str, keys: tuple[str, ...] = (), retry_after_seconds: float = 0.0
) -> AuricleError:
    """Return the error that another process reported; AuricleError for an unknown `code`."""
    kind = classes_by_code().get(code, AuricleError)
    # The constructor composed `message` where the error was raised; do not call it again.
    error = kind.__new__(kind)
    error.args = (message,)
    if keys:
        error.keys = keys
    if retry_after_seconds:
        error.retry_after_seconds = retry_after_seconds
    return error


@cache
def classes_by_code() -> dict[str, type[AuricleError]]:
    found: dict[str, type[AuricleError]] = {}
    waiting = [AuricleError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)  # a subclass may share its base's code
        waiting += kind.__subclasses__()
    return found
