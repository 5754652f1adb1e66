"""Known audio under every kind of fault: no word may be lost or repeated."""
