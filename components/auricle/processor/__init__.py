"""The processor: owns sessions, receives their audio and returns partial and final text."""
