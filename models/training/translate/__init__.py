"""The small translator `models/demo-translate`: its parallel text, training, export, evaluation."""
