"""How an example becomes what a model reads."""
