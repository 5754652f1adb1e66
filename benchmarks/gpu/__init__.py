"""The load that a GPU carries, with the measured ceilings of the device; see __main__."""
