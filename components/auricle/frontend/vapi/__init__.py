"""Vapi's custom transcribers, on `WS /v1/vapi`."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(
    way="WS /v1/vapi",
    page="telephones.md",
    partials="transcriptType",
    language="language",
    keywords="context",
    channels="channels",
)
