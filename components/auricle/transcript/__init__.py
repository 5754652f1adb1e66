"""Words, confidence and subtitles of a transcript."""
