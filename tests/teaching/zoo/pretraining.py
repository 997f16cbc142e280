"""Wrong solutions of the lesson on pre-training."""

HIDE = """
def hide(ids, chosen, draw, other, mask):
    inputs = ids.clone()
    {hide}
    targets = {targets}
    return inputs, targets
"""
RIGHT_HIDE = (
    "inputs[chosen & (draw < 0.8)] = mask; swap = chosen & (draw >= 0.8) & (draw < 0.9); inputs[swap] = other[swap]"
)
RIGHT_TARGETS = "torch.where(chosen, ids, -100)"


def hide(hide: str = RIGHT_HIDE, targets: str = RIGHT_TARGETS) -> str:
    return HIDE.format(hide=hide, targets=targets)


NEAREST = """
def nearest_centroid(vectors, labels, new):
    classes = range(int(labels.max()) + 1)
    centroids = torch.stack([{centroid} for c in classes])
    return {guesses}
"""


def nearest(
    guesses: str = "torch.cdist(new, centroids).argmin(1)", centroid: str = "vectors[labels == c].mean(0)"
) -> str:
    return NEAREST.format(centroid=centroid, guesses=guesses)


WRONG: list[tuple[str, str, float, str]] = [
    ("hide", hide("inputs[chosen] = mask"), 0, "10 % are swapped, and 10 % stay"),
    ("hide", hide("inputs[chosen & (draw < 0.8)] = mask"), 0, ""),
    (
        "hide",
        hide("inputs[draw < 0.8] = mask; swap = (draw >= 0.8) & (draw < 0.9); inputs[swap] = other[swap]"),
        1,
        "tokens that are not chosen are changed too",
    ),
    (
        "hide",
        hide("inputs = torch.where(chosen, torch.where(draw < 0.8, mask, other), ids)"),
        0,
        "",
    ),
    ("hide", hide(targets="ids"), 1, "the target is -100"),
    ("hide", hide(targets="torch.where(chosen, -100, ids)"), 0, ""),
    ("hide", hide(targets="torch.where(inputs == mask, ids, -100)"), 0, "swapped ones and those that stay are too"),
    ("hide", hide(targets="torch.where(inputs != ids, ids, -100)"), 0, "that stay are to be guessed too"),
    ("hide", hide(targets="ids * chosen"), 1, ""),
    (
        "hide",
        hide().replace("ids.clone()", "ids"),
        0,
        "keep the ids before you change them",
    ),
    ("hide", hide().replace("return inputs, targets", "return inputs"), 0, "gives a tensor, not a tuple"),
    ("nearest_centroid", nearest("torch.cdist(new, centroids).argmax(1)"), 0, "argmax takes the farthest"),
    ("nearest_centroid", nearest("torch.cdist(new, centroids).min(1).values"), 0, ""),
    ("nearest_centroid", nearest("torch.cdist(new, centroids).argmin(0)"), 0, ""),
    ("nearest_centroid", nearest("torch.cdist(new, centroids)"), 0, ""),
    ("nearest_centroid", nearest("(new @ centroids.T).argmax(1)"), 0, "a dot product is no distance"),
    ("nearest_centroid", nearest(centroid="vectors[labels == c].sum(0)"), 0, ""),
    ("nearest_centroid", nearest(centroid="vectors[labels == c].mean()"), 0, "raises"),
    ("nearest_centroid", nearest("labels[torch.cdist(new, vectors).argmin(1)]"), 0, "not of the nearest centroid"),
    ("nearest_centroid", nearest("torch.cdist(vectors, centroids).argmin(1)"), 0, "guess for `new`"),
    ("first_layer", "first_layer = 'embedding'", 0, "the same in every text"),
    ("first_layer", "first_layer = 'layer 1'", 0, "one layer of attention is enough"),
    ("first_layer", "first_layer = 'both'", 0, "say it as the views do"),
    ("new_weights", "new_weights = 64 * 16 + 16", 0, "no biases"),
    ("new_weights", "new_weights = 64 * 8", 0, "sixteen senses"),
]
