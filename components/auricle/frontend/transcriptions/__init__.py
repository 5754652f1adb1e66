"""`POST /v1/audio/transcriptions`, compatible with OpenAI and vLLM."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(
    way="POST /v1/audio/transcriptions",
    page="transcriptions.md",
    committed="stream",
    language="language",
    keywords="keywords",
    words="timestamp_granularities",
    confidence="include",
)
