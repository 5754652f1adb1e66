"""Whether each segment is written in the language that it is spoken in."""
