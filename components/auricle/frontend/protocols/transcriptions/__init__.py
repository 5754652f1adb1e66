"""`POST /v1/audio/transcriptions` and `translations`, compatible with OpenAI and vLLM."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = ProtocolCapabilities(
    route="POST /v1/audio/transcriptions",
    page="transcriptions.md",
    committed="stream",
    language="language",
    keywords="keywords",
    words="timestamp_granularities",
    confidence="include",
    speakers="diarized_json",
)
TRANSLATIONS = ProtocolCapabilities(
    route="POST /v1/audio/translations",
    page="translation.md",
    committed="stream",
    language="language",
    keywords="keywords",
    translations="to_language",
)
