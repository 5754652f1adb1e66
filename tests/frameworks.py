"""The `session` of the first `session.update` that agent frameworks send, verbatim.

Recorded from livekit-plugins-openai 1.8.9 and pipecat-ai 1.14.0 (November 2026).
"""

from __future__ import annotations

from typing import Any

_PCM = {"type": "audio/pcm", "rate": 24_000}
_LIVEKIT_VAD = {
    "type": "server_vad",
    "prefix_padding_ms": 600,
    "silence_duration_ms": 350,
    "threshold": 0.5,
}


def _session(**audio_input: Any) -> dict[str, Any]:
    return {"type": "transcription", "audio": {"input": {"format": _PCM, **audio_input}}}


# `STT(use_realtime=True)`
LIVEKIT = _session(
    transcription={"language": "en", "model": "gpt-4o-mini-transcribe"},
    turn_detection=_LIVEKIT_VAD,
)
# `STT(model="gpt-live-transcribe", noise_reduction_type="near_field")`: it commits by itself
LIVEKIT_LIVE = _session(
    noise_reduction={"type": "near_field"},
    transcription={"keywords": [], "languages": ["en"], "model": "gpt-live-transcribe"},
)
# `OpenAIRealtimeSTTService()`: it commits by itself
PIPECAT = _session(
    transcription={"model": "gpt-realtime-whisper", "language": "en"}, turn_detection=None
)
# With `turn_detection={"type": "server_vad"}` and its further settings
PIPECAT_SERVER_VAD = _session(
    transcription={"model": "gpt-transcribe", "language": "en", "delay": "low"},
    noise_reduction={"type": "far_field"},
    turn_detection={"type": "server_vad"},
)
