"""All messages that cross a process boundary.

The reply to a request is a message of the type that the request names, or a `Refusal`. No
message carries embeddings, which NIXL transfers.
"""

from auricle.messages.decoding import (
    DecodeReply,
    DecodeRequest,
    DecodeWindow,
)
from auricle.messages.encoding import (
    BlockFeatures,
    EncodeReply,
    EncodeRequest,
    SpoiledSlot,
    WindowFeatures,
    WindowRef,
)
from auricle.messages.liveness import (
    Alive,
    AskAlive,
)
from auricle.messages.planning import (
    AskDecisions,
    Decisions,
)
from auricle.messages.refusal import (
    Refusal,
)
from auricle.messages.sessions import (
    ADMISSION_SECONDS,
    MAX_CHUNK_MS,
    MIN_CHUNK_MS,
    Accepted,
    AdmitSession,
    Admitted,
    Boundary,
    Done,
    EndAudio,
    Failed,
    Final,
    HandedOver,
    OpenSession,
    Partial,
    PushAudio,
    ResumePoint,
    SessionEvent,
    SessionReady,
    Usage,
    WithdrawAdmission,
    Withdrawn,
)

__all__ = [
    "ADMISSION_SECONDS",
    "MAX_CHUNK_MS",
    "MIN_CHUNK_MS",
    "Accepted",
    "AdmitSession",
    "Admitted",
    "Alive",
    "AskAlive",
    "AskDecisions",
    "BlockFeatures",
    "Boundary",
    "Decisions",
    "DecodeReply",
    "DecodeRequest",
    "DecodeWindow",
    "Done",
    "EncodeReply",
    "EncodeRequest",
    "EndAudio",
    "Failed",
    "Final",
    "HandedOver",
    "OpenSession",
    "Partial",
    "PushAudio",
    "Refusal",
    "ResumePoint",
    "SessionEvent",
    "SessionReady",
    "SpoiledSlot",
    "Usage",
    "WindowFeatures",
    "WindowRef",
    "WithdrawAdmission",
    "Withdrawn",
]
