"""Live translation: which part of a growing hypothesis is told for good. No I/O."""
