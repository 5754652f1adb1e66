"""This tree beside an earlier commit, in one run."""
