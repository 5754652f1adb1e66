"""Checkpoints: formats, geometry, weights, fingerprint, tokenizer and prompt."""
