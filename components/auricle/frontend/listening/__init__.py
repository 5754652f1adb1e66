"""Turns a client's packets into speech: decoding, voice activity detection, endpointing."""
