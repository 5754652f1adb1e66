"""The services of the gRPC port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.rpc.incoming import Methods
from auricle.frontend.frontend import Frontend
from auricle.frontend.kserve.service import kserve_methods
from auricle.frontend.recordings.calls import RecordingCalls
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.riva.service import riva_methods


def rpc_ways(
    frontend: Frontend,
    access: Access,
    transcriber: RecordingTranscriber,
    processors: Callable[[], Awaitable[int]],
) -> Methods:
    """Return the methods of all services; `processors` returns how many can be called now."""
    recordings = RecordingCalls(frontend, access, transcriber)
    return {
        **riva_methods(frontend, access, recordings),
        **kserve_methods(frontend, access, recordings, processors),
    }
