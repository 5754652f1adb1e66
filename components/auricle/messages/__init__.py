"""Every message that crosses a process boundary.

A request is one message; its reply is a message of the named type or a
`Refusal`. Embeddings are in none of them: they travel by NIXL.
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
    WindowFeatures,
    WindowRef,
)
from auricle.messages.planning import (
    AskDecisions,
    Decisions,
)
from auricle.messages.refusal import (
    Refusal,
)
from auricle.messages.sessions import (
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
)

__all__ = [
    "MAX_CHUNK_MS",
    "MIN_CHUNK_MS",
    "Accepted",
    "AdmitSession",
    "Admitted",
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
    "Usage",
    "WindowFeatures",
    "WindowRef",
]
