"""Authentication by API key, and the limits of each client."""
