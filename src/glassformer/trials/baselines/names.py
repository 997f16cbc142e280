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
REFERENCES = {
    TFIDF: "scikit-learn's TF-IDF of words with {head}",
    NGRAMS: "scikit-learn's TF-IDF of words, pairs of words and character n-grams with {head}",
    LINEAR: "scikit-learn's {head}",
    BOOSTING: "scikit-learn's gradient-boosted trees",
}
HEADS = {
    "accuracy": "logistic regression",
    "micro_f1": "a logistic regression for each label",
    "rmse": "ridge regression",
}
"""Linear models, by the metric that a task is judged by."""


def reference_in_words(name: str, primary: str) -> str:
    """What a reference is, spelled out. `primary`: the metric that the task is judged by."""
    if name not in REFERENCES or primary not in HEADS:
        return name
    head = HEADS[primary].removeprefix("a ") if name == LINEAR else HEADS[primary]
    return REFERENCES[name].format(head=head)
