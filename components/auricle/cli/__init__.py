"""The `auricle` command: a group, and its commands by who uses them."""

from auricle.process.resources import collect_rarely

# Before all else is imported. A process that vLLM starts imports this, too, as its parent did.
collect_rarely()

from auricle.cli.main import main  # noqa: E402

__all__ = ["main"]
