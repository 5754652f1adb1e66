"""Audio: files to samples, samples to log-mel, and where to cut. No Dynamo, no I/O on a loop."""
