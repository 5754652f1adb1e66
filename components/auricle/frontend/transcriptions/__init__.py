"""`POST /v1/audio/transcriptions`, compatible with OpenAI and vLLM."""
