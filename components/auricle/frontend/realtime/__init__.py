"""OpenAI's realtime transcription sessions: `WS /v1/realtime`, and behind Dynamo's frontend."""
