"""Models of this machine: pulled from a hub or a package index, checked, found by name."""
