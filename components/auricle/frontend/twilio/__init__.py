"""Twilio's media streams, on `WS /v1/twilio`."""
