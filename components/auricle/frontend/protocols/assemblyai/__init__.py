"""AssemblyAI's streaming protocol, version 3, on `WS /v3/ws`."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = ProtocolCapabilities(
    route="WS /v3/ws",
    page="assemblyai.md",
    partials="transcript",
    committed="word_is_final",
    turns="end_of_turn",
    language="language_code",
    keywords="keyterms_prompt",
    words="words",
    confidence="confidence",
    speakers="speaker_labels",
)
