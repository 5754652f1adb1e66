"""Sizes the encode pool and the PD pool, each on its own."""
