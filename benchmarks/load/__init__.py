"""Applies paced load to servers of live speech recognition and measures them."""
