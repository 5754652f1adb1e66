"""Checkpoints: formats, architectures, prompts, tokenizers."""
