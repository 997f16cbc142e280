"""The block, as students get it wrong."""


def norm(mean: str = "x.mean(-1, keepdim=True)", by: str = "", result: str = "normed * self.gain + self.shift") -> str:
    """Layer norm; what is not given is right."""
    by = by or "torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + self.eps)"
    return f"""
class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = {mean}
        normed = (x - mean) / {by}
        return {result}
"""


def positions(angle: str = "place / 10000 ** (pair / width)", result: str = "") -> str:
    """Positions by sine and cosine; what is not given is right."""
    return f"""
def sine_cosine(length, width):
    place = torch.arange(length)[:, None]
    pair = torch.arange(0, width, 2)
    angle = {angle}
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return {result or "table"}
"""


def block(*lines: str) -> str:
    """A block with this forward."""
    forward = "\n        ".join(lines)
    return f"""
class PreNormBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        return self.attention(x, x, x, need_weights=False)[0]

    def feed(self, x):
        return self.down(self.up(x).relu())

    def forward(self, x):
        {forward}
"""


WRONG: list[tuple[str, str, float, str]] = [
    ("averaged", "averaged = 10, 8", 0, "the other way round"),
    ("averaged", "averaged = 8, 2", 0, "all tokens of all sentences"),
    ("averaged", "averaged = (40, 10)", 0, ""),
    ("LayerNorm", norm(by="(x.var(-1, keepdim=True) + self.eps).sqrt()"), 0, "divided by d - 1"),
    ("LayerNorm", norm(by="(x.std(-1, keepdim=True) + self.eps)"), 0, "std() divides by d - 1"),
    ("LayerNorm", norm(by="(x.std(-1, keepdim=True, unbiased=False) + self.eps)"), 4, ""),
    ("LayerNorm", norm(by="x.std(-1, keepdim=True, unbiased=False)"), 4, "ε is missing"),
    ("LayerNorm", norm(by="(x.var(-1, keepdim=True, unbiased=False) + self.eps)"), 0, "root of the variance"),
    ("LayerNorm", norm("x.mean((0, 1))", "(x.var((0, 1), unbiased=False) + self.eps).sqrt()"), 0, "that is batch norm"),
    ("LayerNorm", norm("x.mean(1, True)", "(x.var(1, False, keepdim=True) + self.eps).sqrt()"), 0, ""),
    ("LayerNorm", norm("0", "((x * x).mean(-1, keepdim=True) + self.eps).sqrt()"), 0, "that is RMS norm"),
    ("LayerNorm", norm(result="normed"), 0, ""),
    ("LayerNorm", norm(result="normed * self.gain"), 0, ""),
    ("LayerNorm", norm(mean="x.mean(-1)"), 1, "raises RuntimeError"),
    ("LayerNorm", norm().replace("self.gain", "self.weight"), 0, "has no gain"),
    ("sine_cosine", positions(result="torch.cat([angle.sin(), angle.cos()], 1)"), 0, "they alternate"),
    ("sine_cosine", positions(result="torch.stack([angle.cos(), angle.sin()], -1).flatten(1)"), 0, "are exchanged"),
    ("sine_cosine", positions("(place + 1) / 10000 ** (pair / width)"), 0, "positions count from 0"),
    ("sine_cosine", positions("place / 10000 ** (2 * pair / width)"), 0, "not the columns"),
    ("sine_cosine", positions("place / 10000 ** (pair / 2 / width)"), 0, ""),
    ("sine_cosine", positions("place * 10000 ** (pair / width)"), 0, ""),
    ("sine_cosine", positions(result="table.T"), 0, "gives the shape"),
    (
        "PreNormBlock",
        block("x = self.norm_1(x + self.attend(x))", "return self.norm_2(x + self.feed(x))"),
        0,
        "post-norm",
    ),
    ("PreNormBlock", block("x = x + self.attend(x)", "return x + self.feed(x)"), 0, ""),
    (
        "PreNormBlock",
        block("x = self.norm_1(x)", "x = x + self.attend(x)", "x = self.norm_2(x)", "return x + self.feed(x)"),
        0,
        "not the normed x",
    ),
    (
        "PreNormBlock",
        block("x = self.attend(self.norm_1(x))", "return self.feed(self.norm_2(x))"),
        0,
        "both residual connections",
    ),
    (
        "PreNormBlock",
        block("x = x + self.attend(self.norm_1(x))", "return self.feed(self.norm_2(x))"),
        0,
        "",
    ),
    (
        "PreNormBlock",
        block("x = x + self.attend(self.norm_1(x))", "return x + self.feed(self.norm_1(x))"),
        0,
        "norm_1 is used twice",
    ),
    (
        "PreNormBlock",
        block("return x + self.attend(self.norm_1(x)) + self.feed(self.norm_2(x))"),
        0,
        "",
    ),
]
