"""Floors and references by name, and what each is in words. Without torch."""

from glassformer.config.presets import (
    CLASSIFICATION,
    IMAGE,
    LANGUAGE_MODEL,
    MASKED,
    MIXED,
    MULTILABEL,
    REGRESSION,
    TABLE,
    TEXT,
    TRANSLATION,
)

MAJORITY, MEAN = "majority class", "mean"
SET, EACH, EVERY = "most frequent set", "each label's majority", "every label"
UNIGRAM, NGRAM, COPY = "unigram", "n-gram", "copy the source"

FLOORS: dict[str, dict[str, str]] = {
    CLASSIFICATION: {MAJORITY: "always the class that is most frequent in training"},
    REGRESSION: {MEAN: "always the mean of the training part"},
    MULTILABEL: {
        SET: "always the set of labels that is most frequent in training",
        EACH: "every label that more than half of the training examples have",
        EVERY: "all labels at once",
    },
    LANGUAGE_MODEL: {
        UNIGRAM: "how frequent each token is in training, plus one",
        NGRAM: "counts of tokens after up to five others, with modified Kneser–Ney smoothing",
    },
    MASKED: {UNIGRAM: "how frequent each token is in training, plus one"},
    TRANSLATION: {COPY: "the source, as it is"},
}

TFIDF, PAIRS = "sklearn:tfidf", "sklearn:tfidf-pairs"
LINEAR, BOOSTING = "sklearn:linear", "sklearn:boosting"

_HEADS = {
    CLASSIFICATION: "logistic regression",
    MULTILABEL: "a logistic regression for each label",
    REGRESSION: "ridge regression",
}
_BOOSTED = "gradient-boosted trees"


def floors_of(task: str, kind: str) -> dict[str, str]:
    """What learns nothing, or only counts, for a task on examples of a kind."""
    return dict(FLOORS.get(task, {}))


def references_of(task: str, kind: str) -> dict[str, str]:
    """Models of scikit-learn with its defaults: what most people would try first."""
    head = _HEADS.get(task)
    if head is None or kind in (IMAGE, MIXED):
        return {}
    if kind == TEXT:
        return {
            TFIDF: f"scikit-learn's TF-IDF of words with {head}",
            PAIRS: f"scikit-learn's TF-IDF of words and pairs of words with {head}",
        }
    assert kind == TABLE
    linear = {LINEAR: f"scikit-learn's {head.removeprefix('a ')}"}
    return linear if task == MULTILABEL else {**linear, BOOSTING: f"scikit-learn's {_BOOSTED}"}
