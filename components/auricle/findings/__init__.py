"""What is wrong with a deployment, in words: pure functions of a diagnosis."""
