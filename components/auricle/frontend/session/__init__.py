"""A live session: its audio, its turns, and its connection to the processor."""
