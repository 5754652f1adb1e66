"""`python -m auricle` is `auricle`."""

from auricle.cli import main

if __name__ == "__main__":  # the processes that decode recordings import this module too
    main()
