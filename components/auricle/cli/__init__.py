"""The `auricle` command: a group, and its commands by who uses them."""

from auricle.cli.main import main

__all__ = ["main"]
