"""Annotations of a session: words, speakers, translations."""
