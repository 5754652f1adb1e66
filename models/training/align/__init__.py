"""The small aligner `models/demo-aligner`: its corpus, training, export and evaluation."""
