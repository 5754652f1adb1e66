"""Each protocol with its usual client, compared with our own protocol."""
