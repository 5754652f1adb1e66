"""What GPUs carry; see __main__."""
