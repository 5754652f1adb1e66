"""Paced load on any server of live speech recognition, and what came of it."""
