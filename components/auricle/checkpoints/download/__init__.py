"""Published checkpoints: find, pull, convert, check and remove them."""
