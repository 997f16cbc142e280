"""Attention, as students get it wrong."""


def head(
    scores: str = "q @ k.T / q.shape[-1] ** 0.5",
    mask: str = "scores.masked_fill(later(1), -torch.inf)",
    result: str = "scores.softmax(-1) @ v",
    v: str = "x @ w_v",
) -> str:
    """One head; what is not given is right."""
    return f"""
def attention(x, w_q, w_k, w_v, causal=False):
    q, k, v = x @ w_q, x @ w_k, {v}
    scores = {scores}
    later = lambda by: torch.ones_like(scores).triu(by).bool()
    if causal:
        scores = {mask}
    return {result}
"""


def heads(
    split: str = "y.view(batch, length, self.heads, -1).transpose(1, 2)",
    scale: str = "q.shape[-1] ** 0.5",
    mask: str = "if self.causal:",
    softmax: str = "scores.softmax(-1)",
    joined: str = "mixed.transpose(1, 2).reshape(batch, length, width)",
    output: str = "self.output(joined)",
    key: str = "key",
) -> str:
    """Several heads; what is not given is right."""
    return f"""
class MultiHeadAttention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width, bias=False)
        self.{key} = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        split = lambda y: {split}
        q, k, v = split(self.query(x)), split(self.{key}(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / {scale}
        {mask}
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        mixed = {softmax} @ v
        joined = {joined}
        return {output}
"""


NO_CAUSAL = """
def attention(x, w_q, w_k, w_v):
    return (x @ w_q @ (x @ w_k).T / w_q.shape[1] ** 0.5).softmax(-1) @ (x @ w_v)
"""

WRONG: list[tuple[str, str, float, str]] = [
    ("attention", head("q @ k.T / q.shape[-1]"), 1, "divide by √e, not by e"),
    ("attention", head("q @ k.T / x.shape[-1] ** 0.5"), 1, ""),
    ("attention", head("q @ k.T"), 1, "the scores are not divided by √e"),
    ("attention", head("q @ k.T * q.shape[-1] ** 0.5"), 1, ""),
    ("attention", head("k @ q.T / k.shape[-1] ** 0.5"), 1, "queries and keys are exchanged"),
    ("attention", head(result="scores.softmax(0) @ v"), 1, "the softmax runs over the queries"),
    ("attention", head(result="torch.softmax(scores, dim=1)"), 0, "gives the shape 5×5, not 5×4"),
    ("attention", head(result="scores @ v"), 0, ""),
    ("attention", head(v="x[:, :w_v.shape[1]]"), 0, ""),
    ("attention", head(mask="scores"), 4, ""),
    ("attention", head(mask="scores.masked_fill(later(0).T, -torch.inf)"), 3, "hides the word itself"),
    ("attention", head(mask="scores.masked_fill(later(0), -torch.inf)"), 3, "hides the word itself"),
    ("attention", head(mask="scores.masked_fill(later(1).T, -torch.inf)"), 4, "upside down"),
    ("attention", head(mask="scores.masked_fill(later(2), -torch.inf)"), 4, "one word ahead"),
    ("attention", head(mask="scores.masked_fill(later(1), 0)"), 4, "hidden scores are 0"),
    ("attention", head(mask="scores - later(1).float()"), 4, "gives"),
    ("attention", head("(q @ k.T / 4).masked_fill(torch.ones(len(q), len(q)).triu(1) > 0, -torch.inf)"), 1, "gives"),
    (
        "attention",
        head(result="scores.masked_fill(later(1), -torch.inf).softmax(-1) @ v"),
        3,
        "",
    ),
    (
        "attention",
        head(mask="scores.softmax(-1).tril()\n        return scores @ v"),
        4,
        "the mask comes after the softmax",
    ),
    ("attention", NO_CAUSAL, 3, "unexpected keyword argument 'causal'"),
    ("MultiHeadAttention", heads(joined="mixed.reshape(batch, length, width)"), 0, "not transposed back"),
    ("MultiHeadAttention", heads(split="y.view(batch, self.heads, length, -1)"), 0, "mixes words and heads"),
    (
        "MultiHeadAttention",
        heads(split="y.view(batch, length, self.heads, -1)", joined="mixed.reshape(batch, length, width)"),
        0,
        "",
    ),
    ("MultiHeadAttention", heads(split="y.view(batch, length, self.heads, -1)"), 0, ""),
    ("MultiHeadAttention", heads(scale="width ** 0.5"), 0, "not of the whole width"),
    ("MultiHeadAttention", heads(scale="q.shape[-1]"), 1, ""),
    ("MultiHeadAttention", heads(scale="1"), 1, "the scores are not divided by √e"),
    ("MultiHeadAttention", heads(output="joined"), 0, "the output matrix is forgotten"),
    ("MultiHeadAttention", heads(softmax="scores.softmax(1)"), 0, ""),
    ("MultiHeadAttention", heads(softmax="scores.softmax(2)"), 0, "over the queries"),
    ("MultiHeadAttention", heads(mask="if False:"), 4, "causal=True hides nothing"),
    ("MultiHeadAttention", heads(key="keys"), 0, "has no key.weight"),
    ("MultiHeadAttention", heads(joined="mixed.transpose(1, 2).view(x.shape)"), 1, "view size is not compatible"),
    ("parameters", "parameters = 3 * 48 * 48", 0, "the output matrix has weights too"),
    ("parameters", "parameters = 3 * (4 * 48 * 48)", 0, "more heads are not more weights"),
    ("parameters", "parameters = 4 * 48 * 16", 0, "there are three heads"),
    ("parameters", "parameters = 4 * (48 * 48 + 48)", 0, "there are no biases"),
]
