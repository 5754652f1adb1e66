"""Each way in with the client that people already have, beside our own protocol."""
