"""Vapi's custom transcribers, on `WS /v1/vapi`."""
