"""Command-line tools: check, doctor, profile, render."""
