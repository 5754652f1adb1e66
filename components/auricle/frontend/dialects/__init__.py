"""What protocols share whose sessions speak in messages of their own: each is a `Dialect`."""
