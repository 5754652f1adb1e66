"""Checks that every published command still runs, in its shortest form."""
