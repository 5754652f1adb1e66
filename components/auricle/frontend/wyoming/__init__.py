"""Wyoming, the protocol of Home Assistant, on a TCP port."""
