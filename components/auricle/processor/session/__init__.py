"""The session's state machine and its parts. No I/O."""
