"""How models/demo was made: sentences, synthetic speech, tokenizer, training, evaluation."""
