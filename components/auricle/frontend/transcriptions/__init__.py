"""`POST /v1/audio/transcriptions`, as OpenAI and vLLM serve it."""
