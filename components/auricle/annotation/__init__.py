"""What is added to a transcript: word times, speakers, translations."""
