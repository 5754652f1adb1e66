"""OpenAI's realtime transcription sessions, on `WS /v1/realtime` and behind Dynamo's frontend."""
