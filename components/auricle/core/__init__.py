"""Errors, limits on clients' text, quoting, and asyncio helpers: what every package may use."""
