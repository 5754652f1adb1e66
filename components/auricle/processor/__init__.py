"""Processor: owns sessions; audio in, committed and partial text out."""
