"""What this frontend finds out about its deployment when it is asked for a diagnosis."""
