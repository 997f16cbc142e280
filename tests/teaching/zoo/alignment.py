"""Wrong solutions of the lesson on alignment."""


def attend(
    scores: str = "(states @ query.unsqueeze(-1)).squeeze(-1)",
    mask: str = "scores.masked_fill(~mask, float('-inf'))",
    weights: str = "scores.softmax(-1)",
    result: str = "(weights.unsqueeze(-1) * states).sum(1), weights",
) -> str:
    """What is not given is right."""
    return f"""
def attend(query, states, mask):
    scores = {scores}
    scores = {mask}
    weights = {weights}
    return {result}
"""


WRONG: list[tuple[str, str, float, str]] = [
    ("numbers", "numbers = (64, 64)", 0, "it may look at every state"),
    ("numbers", "numbers = (64, 20)", 0, "each of the 20 states has 64 numbers"),
    ("numbers", "numbers = (20, 1280)", 0, "is not how many numbers"),
    ("attend", attend(mask="scores"), 3, "padding gets weight"),
    ("attend", attend(mask="scores * mask"), 3, "a score of 0 is not nothing"),
    ("attend", attend(mask="scores", weights="scores.softmax(-1) * mask"), 3, "no longer sum to 1"),
    ("attend", attend(mask="scores.masked_fill(mask, -torch.inf)"), 0, "the mask is upside down"),
    ("attend", attend(weights="(scores / states.shape[-1] ** 0.5).softmax(-1)"), 1, "not divided by anything here"),
    ("attend", attend(weights="scores.softmax(0)"), 0, "over the texts of the batch"),
    ("attend", attend(result="weights, (weights.unsqueeze(-1) * states).sum(1)"), 0, ""),
    ("attend", attend(result="(weights.unsqueeze(-1) * states).mean(1), weights"), 0, ""),
    ("attend", attend(scores="states @ query.T", mask="scores"), 0, "raises"),
    ("attend", attend(weights="scores.exp() / scores.exp().sum(-1, keepdim=True)"), 5, "gives nan"),
    (
        "additive_scores",
        "def additive_scores(query, states, w, u, v):\n    return (query @ w.T + states @ u.T).tanh() @ v",
        1,
        "raises",
    ),
    (
        "additive_scores",
        "def additive_scores(query, states, w, u, v):\n    return ((query @ w.T)[:, None] + states @ u.T) @ v",
        0,
        "tanh is missing",
    ),
    (
        "additive_scores",
        "def additive_scores(query, states, w, u, v):\n    return ((query @ w)[:, None] + states @ u).tanh() @ v",
        0,
        "",
    ),
    (
        "additive_scores",
        "def additive_scores(query, states, w, u, v):\n"
        "    return (((query @ w.T)[:, None] + states @ u.T).tanh() @ v).softmax(-1)",
        0,
        "",
    ),
    (
        "additive_scores",
        "def additive_scores(query, states, w, u, v):\n    return v @ torch.tanh(w @ query + u @ states)",
        0,
        "raises",
    ),
]
