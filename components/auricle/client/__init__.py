"""The client library: live sessions, which survive lost connections, and recordings.

See docs/client.md. It imports no part of a server.
"""

from auricle.client.client import Client, SyncClient
from auricle.client.connection import Capabilities
from auricle.client.errors import ConnectionLost, ServerUnreachable
from auricle.client.events import StreamEvent
from auricle.client.jobs import JobFailure, RecordingJob
from auricle.client.options import Endpointing, StreamOptions, TranscribeOptions
from auricle.client.recordings import Segment, SpeakerText, TimedWord, Transcript
from auricle.client.sources import Pcm, Source
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    Forbidden,
    Overloaded,
    RateLimited,
    Unauthorized,
)
from auricle.protocol.stream import (
    Done,
    Final,
    Partial,
    Ready,
    SpeakerPart,
    Speakers,
    SpeechStarted,
    SpeechStopped,
    Translation,
    TurnPaused,
    TurnResumed,
    Usage,
    Word,
    Words,
)

__all__ = [
    "AuricleError",
    "BadRequest",
    "Capabilities",
    "Client",
    "ConnectionLost",
    "Done",
    "Endpointing",
    "Final",
    "Forbidden",
    "JobFailure",
    "Overloaded",
    "Partial",
    "Pcm",
    "RateLimited",
    "Ready",
    "RecordingJob",
    "Segment",
    "ServerUnreachable",
    "Source",
    "SpeakerPart",
    "SpeakerText",
    "Speakers",
    "SpeechStarted",
    "SpeechStopped",
    "StreamEvent",
    "StreamOptions",
    "SyncClient",
    "TimedWord",
    "TranscribeOptions",
    "Transcript",
    "Translation",
    "TurnPaused",
    "TurnResumed",
    "Unauthorized",
    "Usage",
    "Word",
    "Words",
]
