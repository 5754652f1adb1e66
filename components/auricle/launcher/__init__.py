"""`auricle serve`: graphs, their configuration, and the processes of one machine."""
