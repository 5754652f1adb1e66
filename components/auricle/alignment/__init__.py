"""Forced alignment without a model: how text is split into words, and how times are repaired."""
