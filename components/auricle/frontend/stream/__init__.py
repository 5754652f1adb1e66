"""`WS /v1/audio/stream`: auricle's own protocol, with committed and partial text."""
