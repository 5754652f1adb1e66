"""Jobs: recordings that are transcribed after the request that brought them."""
