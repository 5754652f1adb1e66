"""`WS /v1/audio/stream`: our own protocol, with committed and partial text."""
