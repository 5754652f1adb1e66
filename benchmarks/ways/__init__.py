"""Whether the same audio gives the same words by every way into the server."""
