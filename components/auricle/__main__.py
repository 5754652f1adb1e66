"""Runs the `auricle` command as `python -m auricle`."""

from auricle.cli import main

if __name__ == "__main__":  # processes that decode recordings import this module too
    main()
