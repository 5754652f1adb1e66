"""`WS /v1/audio/stream`: auricle's own protocol, with committed and partial text."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = ProtocolCapabilities(
    route="WS /v1/audio/stream",
    page="websocket.md",
    partials="partial",
    committed="committed",
    turns="speech_stopped",
    language="language",
    keywords="context",
    words="words",
    confidence="confidence",
    speakers="diarize",
    translations="translate",
    resume="resume",
    features="log_mel",
)
