"""Deepgram's live protocol, on `WS /v1/listen`."""
