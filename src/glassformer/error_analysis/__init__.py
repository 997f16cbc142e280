"""Where a model is wrong: panels from the records of an evaluation, and what they say in a sentence."""
