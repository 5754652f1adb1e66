"""Whether keywords that were not spoken appear in the text, and the gain for spoken ones."""
