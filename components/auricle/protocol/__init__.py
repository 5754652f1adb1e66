"""The messages between processes."""
