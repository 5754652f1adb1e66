"""Annotations of a transcript: word times, speakers, translations."""
