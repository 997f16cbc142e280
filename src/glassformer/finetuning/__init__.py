"""Fine-tuning: new models that are initialised with the weights and the tokenizer of another run."""
