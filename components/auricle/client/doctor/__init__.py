"""`auricle doctor`: says what is wrong with a running deployment, and what to do."""
