"""The frontend: terminates the clients' protocols and turns their audio into 16 kHz PCM."""
