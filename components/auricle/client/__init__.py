"""The client of `auricle transcribe`: streaming and display."""
