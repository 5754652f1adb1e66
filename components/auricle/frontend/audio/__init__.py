"""From packets of audio to speech segments."""
