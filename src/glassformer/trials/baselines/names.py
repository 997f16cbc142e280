"""Floors and references by name, and what each is in words. Without torch."""

MAJORITY = "majority class"
"""Always the class that is most frequent in training."""
MEAN = "mean"
"""Always the mean of the training part."""
SET, EACH, EVERY = "most frequent set", "each label's majority", "every label"
"""Always the set of labels that is most frequent in training; every label that more than half of the training examples
have; all labels at once."""
UNIGRAM = "unigram"
"""How frequent each token is in training, plus one."""
NGRAM = "n-gram"
"""Counts of tokens after up to five others, with modified Kneser–Ney smoothing."""
COPY = "copy the source"
"""The source, as it is."""

TFIDF, NGRAMS = "sklearn:tfidf", "sklearn:tfidf-ngrams"
LINEAR, BOOSTING = "sklearn:linear", "sklearn:boosting"
