"""Deepgram's live protocol, on `WS /v1/listen`."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(
    way="WS /v1/listen",
    page="deepgram.md",
    partials="interim_results",
    turns="speech_final",
    language="language",
    keywords="keyterm",
)
