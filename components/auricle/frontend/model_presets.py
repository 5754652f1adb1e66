"""Names of models that programs written for another service ask for by default. No I/O."""

from __future__ import annotations

from auricle.door_settings import ModelPreset
from auricle.settings import FrontendSettings

# Without `gpt-4o-transcribe-diarize`: who asks for it expects speakers.
_NAMES: dict[ModelPreset, tuple[str, ...]] = {
    "openai": (
        "whisper-1",
        "gpt-transcribe",
        "gpt-live-transcribe",
        "gpt-realtime-whisper",
        "gpt-4o-transcribe",
        "gpt-4o-mini-transcribe",
        "gpt-4o-mini-transcribe-2025-12-15",
    ),
    "assemblyai": (
        "universal-streaming-english",
        "universal-streaming-multilingual",
        "universal-3-6-pro",
        "universal-3-6",
        "universal-3-5-pro",
        "u3-rt-pro",
        "u3-rt-pro-beta-1",
        "u3-pro",
        "whisper-rt",
    ),
}


def served_names(settings: FrontendSettings) -> tuple[str, ...]:
    """Return the names under which clients may ask for the model, its own one first."""
    preset = (name for preset in settings.model_presets for name in _NAMES[preset])
    return tuple(dict.fromkeys((settings.model.resolve().name, *settings.model_aliases, *preset)))
