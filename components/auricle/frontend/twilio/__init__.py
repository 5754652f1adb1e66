"""Twilio's media streams, on `WS /v1/twilio`."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(
    way="WS /v1/twilio",
    page="telephones.md",
    language="language",
    keywords="context",
    channels="tracks",
)
