"""AudioSocket, Asterisk's protocol for a call's audio, on a TCP port."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = Capabilities(way="AudioSocket", page="telephones.md")
