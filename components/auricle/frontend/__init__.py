"""Frontend: ends the clients' protocols; turns what they send into 16 kHz PCM."""
