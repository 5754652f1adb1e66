"""auricle compared with the servers that people run: same weights, machine, audio and clients."""
