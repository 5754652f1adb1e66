"""The `auricle` command."""

from auricle.process.resources import collect_rarely

# Before all other imports. A process that vLLM starts imports this module, too.
collect_rarely()

from auricle.cli.main import main  # noqa: E402

__all__ = ["main"]
