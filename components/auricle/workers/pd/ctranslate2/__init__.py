"""CTranslate2 as an engine: Whisper on CPUs."""
