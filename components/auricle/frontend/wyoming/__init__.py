"""Wyoming, the protocol of Home Assistant, on a TCP port."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(
    way="Wyoming",
    page="wyoming.md",
    committed="transcript-chunk",
    language="language",
    keywords="transcript_terms",
)
