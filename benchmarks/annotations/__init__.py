"""What is said of text beside the text: when turns end."""
