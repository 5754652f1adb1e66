"""`python -m auricle` is `auricle`."""

from auricle.cli import main

main()
