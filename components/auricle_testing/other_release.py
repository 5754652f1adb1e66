"""Runs the command `auricle` as another release does, whose wire has other versions.

`python -m auricle_testing.other_release OLDEST NEWEST component EncodeWorker …`
"""

from __future__ import annotations

import sys

from auricle import protocol


def main() -> None:
    """Set the versions before any module takes them, then run the command."""
    oldest, newest = map(int, sys.argv[1:3])
    del sys.argv[1:3]
    vars(protocol).update(OLDEST_WIRE=oldest, WIRE=newest)
    from auricle.cli import main as auricle

    auricle()


if __name__ == "__main__":  # processes that decode recordings import this module too
    main()
