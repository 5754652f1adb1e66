"""Measures what a GPU carries, with its measured ceilings beside the figures; see __main__."""
