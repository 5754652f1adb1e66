"""`auricle doctor` as a user types it, but in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from click.testing import CliRunner, Result

from auricle.cli import main


def doctor(*arguments: str) -> Result:
    """The command's output and exit code."""
    with ThreadPoolExecutor(1) as thread:  # the event loop of this thread is pytest's
        return thread.submit(CliRunner().invoke, main, ("doctor", *arguments)).result()
