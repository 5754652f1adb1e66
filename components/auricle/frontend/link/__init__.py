"""The connection of a session to its processor: resumed, replayed, moved."""
