"""NVIDIA Riva's speech recognition, over gRPC."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = (
    ProtocolCapabilities(
        route="StreamingRecognize",
        page="riva.md",
        partials="interim_results",
        committed="stability",
        turns="endpointing_config",
        language="language_code",
        keywords="speech_contexts",
        words="enable_word_time_offsets",
        confidence="confidence",
        speakers="enable_speaker_diarization",
    ),
    ProtocolCapabilities(
        route="Recognize",
        page="riva.md",
        language="language_code",
        keywords="speech_contexts",
        words="enable_word_time_offsets",
        confidence="confidence",
    ),
)
