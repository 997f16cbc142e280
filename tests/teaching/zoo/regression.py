"""Wrong solutions of the lesson on regression."""

WRONG: list[tuple[str, str, float, str]] = [
    (
        "gradient",
        """
def gradient(x, y, w, b):
    error = y - (x @ w + b)
    return 2 * x.T @ error / len(x), 2 * error.mean()
""",
        0,
        "the sign is wrong",
    ),
    (
        "gradient",
        """
def gradient(x, y, w, b):
    pred = x @ w + b
    dw = (1 / len(y)) * torch.matmul(x.T, pred - y)
    db = torch.mean(pred - y)
    return dw, db
""",
        0,
        "a factor of 2",
    ),
    (
        "gradient",
        """
def gradient(x, y, w, b):
    diff = x @ w + b - y
    return 2 * (x.T @ diff), 2 * diff.sum()
""",
        1,  # of one flat, sum and mean are the same
        "the loss is a mean",
    ),
    (
        "gradient",
        """
def gradient(x, y, w, b):
    n = x.shape[0]
    diff = x @ w + b - y
    return 2 / n * (x.T @ diff), 2 * diff.sum()
""",
        1,
        "",
    ),
    (
        "gradient",
        """
def gradient(x, y, w, b):
    diff = x @ w - y
    return 2 * x.T @ diff / len(x), 2 * diff.mean()
""",
        0,
        "b is left out",
    ),
    (
        "gradient",
        """
def gradient(x, y, w, b):
    error = x @ w + b - y
    dw = 2 * (x * error[:, None]).mean()
    return dw, 2 * error.mean()
""",
        0,
        "gives one number, not the shape 2",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    p = torch.exp(scores) / torch.exp(scores).sum(dim=1, keepdim=True)
    return -torch.log(p[range(len(labels)), labels]).mean()
""",
        3,
        "exp of a large score is infinite",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    right = scores[torch.arange(len(labels)), labels]
    return (torch.log(torch.exp(scores).sum(-1)) - right).mean()
""",
        3,
        "exp of a large score is infinite",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    p = torch.softmax(scores, dim=-1)
    return -(p[torch.arange(len(labels)), labels] + 1e-8).log().mean()
""",
        3,
        "",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    p = scores.softmax(0)
    return -p[torch.arange(len(labels)), labels].log().mean()
""",
        0,
        "the softmax runs over the examples",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    logs = torch.log_softmax(scores, -1)
    return -sum(logs[i, labels[i]] for i in range(len(labels)))
""",
        0,
        "not their sum",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    logs = torch.log_softmax(scores, -1)
    one_hot = torch.nn.functional.one_hot(labels, scores.shape[1])
    return -(one_hot * logs).mean()
""",
        0,
        "",
    ),
    (
        "cross_entropy",
        """
def cross_entropy(scores, labels):
    logs = torch.log_softmax(scores, -1)
    return logs[torch.arange(len(labels)), labels].mean()
""",
        0,
        "the minus is missing",
    ),
    ("parameters", "parameters = 64 * 32 + 32 * 10", 0, "each layer has biases too"),
    ("parameters", "parameters = 64 * 10 + 10", 0, "that is the linear model"),
    ("least_rmse", "least_rmse = 0", 0, "nobody can predict the noise"),
    ("least_rmse", "least_rmse = 900", 0, "rmse is the root"),
]
