"""Errors, limits on clients' text, quoting, and asyncio helpers, for every package."""
