"""Sends cases to a running graph and says what came back."""
