"""AudioSocket, Asterisk's protocol for a call's audio, on a TCP port."""
