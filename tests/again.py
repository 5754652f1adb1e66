"""Runs the tests that failed last time once more, in sequence, to separate races from defects."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def last_failed(file: Path = LAST_FAILED) -> list[str]:
    """Names of the tests that failed in the last run, as pytest's cache has them."""
    return list(json.loads(file.read_text())) if file.exists() else []


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if tests of at least one and at most `--most` files had failed, and all pass now.

    Files count, because a race in a fixture fails all tests of a file.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=3, help="with more files none is run again")
    most = parser.parse_args(arguments).most
    names = last_failed()
    files = {name.partition("::")[0] for name in names}
    if not 0 < len(files) <= most:
        print(f"tests of {len(files)} files failed; of 1 to {most} they are run again")
        return 1
    if subprocess.call([sys.executable, "-m", "pytest", "-n", "0", *names]) != 0:
        return 1
    for name in names:
        print(f"RACE: {name} failed once, and passed when it ran alone. Please mend it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
