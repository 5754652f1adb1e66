"""Ordinary speech with real weights: people, a neural voice, four more languages, noise."""
