"""Generators of hostile cases: pure functions of a random number generator."""
