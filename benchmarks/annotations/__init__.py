"""What is told beside the text: words, confidence, speakers, turns."""
