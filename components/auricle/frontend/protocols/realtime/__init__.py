"""OpenAI's realtime transcription sessions, on `WS /v1/realtime` and behind Dynamo's frontend."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = ProtocolCapabilities(
    route="WS /v1/realtime",
    page="realtime.md",
    partials="auricle.transcription.partial",
    committed="conversation.item.input_audio_transcription.delta",
    turns="turn_detection",
    language="language",
    keywords="keywords",
    confidence="item.input_audio_transcription.logprobs",
)
TRANSLATIONS = ProtocolCapabilities(
    route="WS /v1/realtime/translations",
    page="translation.md",
    committed="session.input_transcript.delta",
    translations="session.output_transcript.delta",
)
