"""Measures the capacity of GPUs; see __main__."""
