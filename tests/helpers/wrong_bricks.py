"""Mistakes of students: what is changed in a right brick, what must be recognised, the first wrong tensor."""

from typing import NamedTuple

from helpers import right_bricks as right


class Wrong(NamedTuple):
    """A brick that was right, with a piece of its source changed."""

    source: str
    name: str
    old: str
    new: str
    hint: str
    """A part of the sentence; empty for a rare mistake, which has none."""
    stage: str = ""
    """The first wrong tensor."""
    fails: str = "forward"
    """A row that fails."""

    @property
    def code(self) -> str:
        assert self.old in self.source, self.old
        return self.source.replace(self.old, self.new)


def attention(old: str, new: str, hint: str, stage: str, fails: str = "forward") -> Wrong:
    return Wrong(right.ATTENTION, "Attention", old, new, hint, stage, fails)


SCALE, SOFT, SEEN = "/ math.sqrt(q.shape[-1])", "scores.softmax(-1)", "torch.tril(seen)"
HIDE = 'scores = scores.masked_fill(~seen, float("-inf"))\n'
SPLIT = "x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)"
JOIN = "(weights @ v).transpose(1, 2).reshape(B, T, d)"
PARTS = "self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))"
ATTENTION = [
    attention(SCALE, "/ q.shape[-1]", "by the head width d, not by its root", "scores"),
    attention(SCALE, "/ math.sqrt(d)", "divided by √width", "scores"),
    attention(SCALE, "", "not divided by √d", "scores"),
    attention(SCALE, "* math.sqrt(q.shape[-1])", "", "scores"),
    attention(SCALE, "/ math.sqrt(self.heads)", "", "scores"),
    attention(SOFT, "scores.softmax(-2)", "softmax goes over the queries", "weights"),
    attention(SOFT, "scores.softmax(1)", "softmax goes over the heads", "weights"),
    attention(SOFT, "scores.softmax(0)", "", "weights"),
    attention(SOFT, "scores.masked_fill(~seen, 0.0)", "there is no softmax", "mixed"),
    attention(SEEN, "torch.triu(seen)", "upside down: a token sees itself and the future", "scores", "causality"),
    attention(SEEN, "torch.triu(seen, 1)", "the mask is upside down", "scores", "causality"),
    attention("~seen,", "seen,", "the mask is upside down", "scores"),
    attention(
        "mask[:, None, None, :]",
        "~mask[:, None, None, :]",
        "padding mask is upside down",
        "scores",
        "padded = unpadded",
    ),
    attention(HIDE, "scores = scores + seen\n", "added as 0 and 1", "scores"),
    attention(HIDE, "scores = scores + (~seen).float()\n", "added as 1 where it hides", "scores"),
    attention(HIDE, "scores = scores * seen\n", "set to 0, and exp(0) is 1", "scores", "causality"),
    attention(f"{HIDE}        weights = {SOFT}", f"weights = {SOFT} * seen", "after the softmax", "scores"),
    attention(SEEN, "torch.tril(seen, -1)", "does not see itself", "scores"),
    attention(SEEN, "torch.tril(seen, 1)", "sees the next one", "scores", "causality"),
    attention(SEEN, "seen", "the causal mask is forgotten", "scores", "causality"),
    attention("seen & mask[:, None, None, :]", "seen", "padding is looked at", "scores", "padded = unpadded"),
    attention(JOIN, "(weights @ v).reshape(B, T, d)", "not transposed back", "mixed"),
    attention(SPLIT, "x.view(x.shape[0], self.heads, x.shape[1], -1)", "split by a view without a transpose", "scores"),
    attention(SPLIT, "x.view(x.shape[0], x.shape[1], -1, self.heads).permute(0, 3, 1, 2)", "", "scores"),
    attention("q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)", "queries and keys are exchanged", "scores"),
    attention(PARTS, PARTS.replace("self.value(x)", "self.query(x)"), "", "mixed"),
    attention(PARTS, PARTS.replace("self.value(x)", "self.key(x)"), "values are made by the keys' map", "mixed"),
    attention(PARTS, PARTS.replace("self.value(x)", "x"), "inputs themselves are averaged", "mixed"),
    attention(PARTS, PARTS.replace("self.key(x)", "self.query(x)"), "", "scores"),
    attention("return self.output(mixed)", "return mixed", "output projection W^O is forgotten", "output"),
    attention("return self.output(mixed)", "return x + self.output(mixed)", "a residual connection", "output"),
    Wrong(
        right.FUSED,
        "CausalSelfAttention",
        "torch.tril(torch.ones(config.block_size, config.block_size))",
        "torch.ones(config.block_size, config.block_size)",
        "the causal mask is forgotten",
        "scores",
        "causality",
    ),
    Wrong(right.FUSED, "CausalSelfAttention", "dim=-1", "dim=1", "softmax goes over the heads", "weights"),
    Wrong(right.BARE, "MultiHeadAttention", "* (d // self.h) ** -0.5", "* d ** -0.5", "divided by √width", ""),
    Wrong(right.BARE, "MultiHeadAttention", "e.sum(-1, keepdim=True)", "e.sum(-2, keepdim=True)", "", "weights"),
    Wrong(right.PER_HEAD, "MultiHeadAttention", " * self.key.out_features ** -0.5", "", "not divided by √d", "scores"),
    Wrong(
        right.ONE_HEAD, "SelfAttention", "softmax(dim=2)", "softmax(dim=1)", "softmax goes over the queries", "weights"
    ),
]

FUNCTION = [
    Wrong(right.FUNCTION, "attention", old, new, hint, stage)
    for old, new, hint, stage in (
        (SCALE, "/ q.shape[-1]", "by the head width d", "scores"),
        (SCALE, "", "not divided", "scores"),
        (SCALE, "/ math.sqrt(q.shape[-2])", "", "scores"),
        ("dim=-1", "dim=-2", "over the queries", "weights"),
        ("~mask", "mask", "the mask is upside down", "scores"),
        ('scores.masked_fill(~mask, float("-inf"))', "scores + mask", "added as 0 and 1", "scores"),
        ('scores.masked_fill(~mask, float("-inf"))', "scores", "the mask is ignored", "scores"),
        ("weights @ v", "weights @ k", "keys are averaged", "output"),
        ("weights @ v", "weights.transpose(-2, -1) @ v", "weights are transposed", "output"),
    )
]

LAYER = [
    Wrong(right.LAYER_NORM, "LayerNorm", old, new, hint, stage, fails)
    for old, new, hint, stage, fails in (
        ("(-1, keepdim=True", "(1, keepdim=True", "over the tokens", "mean", "causality"),
        ("(-1, keepdim=True", "(0, keepdim=True", "over the batch", "mean", "batch rows"),
        (", unbiased=False", "", "n − 1", "variance", "forward"),
        (
            "torch.sqrt(variance + self.eps)",
            "(torch.sqrt(variance) + self.eps)",
            "ε is outside the root",
            "normalised",
            "forward",
        ),
        ("torch.sqrt(variance + self.eps)", "torch.sqrt(variance)", "ε is forgotten", "normalised", "forward"),
        (
            "torch.sqrt(variance + self.eps)",
            "(variance + self.eps)",
            "",
            "normalised",
            "forward",
        ),
        ("(x - mean) /", "x /", "mean is not subtracted", "normalised", "forward"),
        ("self.gamma * normalised + self.beta", "normalised + self.beta", "the gain is forgotten", "output", "forward"),
        (
            "self.gamma * normalised + self.beta",
            "self.gamma * normalised",
            "the shift is forgotten",
            "output",
            "forward",
        ),
        (
            "self.gamma * normalised + self.beta",
            "self.beta * normalised + self.gamma",
            "",
            "output",
            "forward",
        ),
    )
]
RMS = [
    Wrong(right.RMS_NORM, "RMSNorm", old, new, hint, stage)
    for old, new, hint, stage in (
        ("square = x.pow", "x = x - x.mean(-1, keepdim=True)\n        square = x.pow", "it is centred", ""),
        ("mean(-1", "mean(1", "over the tokens", ""),
        ("mean(-1", "sum(-1", "summed, not averaged", ""),
        ("torch.rsqrt(square + 1e-8)", "1 / (square + 1e-8)", "", ""),
        ("normalised * self.scale", "normalised", "the gain is forgotten", "output"),
    )
]
POSITIONS = [
    Wrong(right.SINE, "PositionalEncoding", old, new, hint)
    for old, new, hint in (
        ("pe[:, 0::2]", "pe[:, : d_model // 2]", ""),
        ("torch.arange(0, d_model, 2)", "torch.arange(0, d_model // 2)", "the exponent is i/d"),
        ("torch.arange(0, max_len)", "torch.arange(1, max_len + 1)", "counted from 1"),
        ("x + self.pe", "x * self.pe", "multiplied"),
        (
            "return x + self.pe[: x.shape[1]]",
            "return self.pe[: x.shape[1]].expand_as(x)",
            "only the positions are given",
        ),
    )
][1:]
HALVES = right.SINE.replace("pe[:, 0::2]", "pe[:, : d_model // 2]").replace("pe[:, 1::2]", "pe[:, d_model // 2 :]")
POSITIONS += [
    Wrong(HALVES, "PositionalEncoding", "", "", "in two halves"),
    Wrong(
        right.LEARNED, "LearnedPositions", "torch.arange(x.shape[1])", "torch.arange(x.shape[1]) + 1", "counted from 1"
    ),
    Wrong(right.LEARNED, "LearnedPositions", "x + self", "x * self", "multiplied", "output"),
]
POOLING = [
    Wrong(right.MEAN_POOL, "MeanPool", "m.sum(1)", "x.shape[1]", "divided by T"),
    Wrong(
        right.MEAN_POOL,
        "MeanPool",
        "(x * m).sum(1) / m.sum(1)",
        "x.mean(1)",
        "padding is ignored",
        "",
        "padded = unpadded",
    ),
    Wrong(right.MEAN_POOL, "MeanPool", "(x * m)", "x", ""),
    Wrong(right.MAX_POOL, "max_pool", 'float("-inf")', "0.0", "padding is set to 0"),
    Wrong(
        right.MAX_POOL, "max_pool", "mask is not None", "False", "padding can be the largest", "", "padded = unpadded"
    ),
    Wrong(right.LAST_POOL, "last_token", "mask.sum(1) - 1", "x.shape[1] - 1", "position T − 1 is taken"),
    Wrong(right.LAST_POOL, "last_token", "mask.sum(1) - 1", "mask.sum(1).clamp(max=x.shape[1] - 1)", ""),
    Wrong(
        right.ATTENTION_POOL, "AttentionPooling", "scores.softmax(-1)", "scores.softmax(0)", "over the batch", "weights"
    ),
    Wrong(right.ATTENTION_POOL, "AttentionPooling", 'float("-inf")', "0.0", "set to 0", "scores"),
]
FEED = [
    Wrong(right.FEED_FORWARD, "FeedForward", "F.relu(self.fc1(x))", "self.fc1(x)", "no non-linearity between"),
    Wrong(right.FEED_FORWARD, "FeedForward", "return self", "return x + self", "residual connection", "output"),
    Wrong(
        right.FEED_FORWARD,
        "FeedForward",
        "self.fc2(F.relu(self.fc1(x)))",
        "F.relu(self.fc2(self.fc1(x)))",
        "after the second map",
    ),
]
RECURRENT = [
    Wrong(right.LSTM, "LSTM", old, new, hint, stage, fails)
    for old, new, hint, stage, fails in (
        ("i, f, g, o = total", "f, i, g, o = total", "input and forget gate are exchanged", "cell", "forward"),
        ("i, f, g, o = total", "i, f, o, g = total", "the gates stand in the order i, f, o, g", "g", "forward"),
        ("f * c + i * g", "i * c + f * g", "input and forget gate are exchanged", "cell", "forward"),
        ("o * torch.tanh(c)", "o * c", "tanh is forgotten on the cell", "state", "forward"),
        ("o * torch.tanh(c)", "torch.tanh(o * c)", "", "state", "forward"),
        ("f * c + i * g", "f * h + i * g", "h is used where the cell c belongs", "cell", "forward"),
        ("torch.tanh(g)", "torch.sigmoid(g)", "the candidate g has a sigmoid", "g", "forward"),
        ("x[:, t])", "x[:, t]) + self.ih.bias", "the bias is added twice", "i", "forward"),
    )
]
KEPT = right.LSTM.replace(
    "h = x.new_zeros(B, self.hidden_size)\n",
    "h = x.new_zeros(B, self.hidden_size) if self.kept is None else self.kept[0]\n",
)
KEPT = KEPT.replace(
    "c = x.new_zeros(B, self.hidden_size)\n",
    "c = x.new_zeros(B, self.hidden_size) if self.kept is None else self.kept[1]\n",
)
TURNED = right.RNN.replace("torch.zeros(x.shape[0]", "torch.zeros(x.shape[1]").replace(
    "range(x.shape[1])", "range(x.shape[0])"
)
RECURRENT += [
    Wrong(
        KEPT,
        "LSTM",
        "return torch.stack",
        "self.kept = (h.detach(), c.detach())\n        return torch.stack",
        "",
        "",
        "same twice",
    ),
    Wrong(TURNED, "RNN", "x[:, t] @", "x[t] @", "", "", "shapes"),
    Wrong(TURNED.replace("dim=1", "dim=0"), "RNN", "x[:, t] @", "x[t] @", "time and batch are exchanged"),
    Wrong(right.RNN, "RNN", "torch.tanh(total)", "total", "tanh is forgotten"),
    Wrong(right.RNN, "RNN", " + self.b\n", " + self.b + self.b\n", "the bias is added twice"),
    Wrong(right.GRU, "GRU", "(r * h)", "h", "the reset gate is forgotten"),
]
FUNCTIONS = [
    Wrong(right.SOFTMAX, "softmax", "x - x.max(-1, keepdim=True).values", "x", "exp overflows"),
    Wrong(right.SOFTMAX, "softmax", "e.sum(-1, keepdim=True)", "e.sum(0, keepdim=True)", ""),
    Wrong(right.SOFTMAX, "softmax", "e / e.sum(-1, keepdim=True)", "torch.softmax(x, 0)", "over the rows"),
    Wrong(
        right.CROSS_ENTROPY,
        "cross_entropy",
        "torch.log_softmax(logits, -1)",
        "torch.log_softmax(torch.softmax(logits, -1), -1)",
        "softmax is taken twice",
        "log probabilities",
    ),
    Wrong(right.CROSS_ENTROPY, "cross_entropy", "losses.mean()", "losses.sum()", "summed"),
    Wrong(
        right.CROSS_ENTROPY,
        "cross_entropy",
        "(losses * mask).sum() / mask.sum()",
        "losses.mean()",
        "padding is counted",
    ),
    Wrong(right.CROSS_ENTROPY, "cross_entropy", "= -logs", "= logs", "the sign is wrong"),
]
ENCODERS = [
    Wrong(right.ENCODER, "Means", old, new, "", "", fails)
    for old, new, fails in (
        (".cumsum(1)\n", ".sum(1, keepdim=True).expand(-1, x.shape[1], -1)\n", "causality"),
        ("state.total, state.count = total[:, -1], count[:, -1]", "state.total = total[:, -1]", "cached = uncached"),
        ("(x * real[..., None])", "x.flip(0)", "batch rows"),
        ("mask.float()", "torch.ones(x.shape[:2])", ""),
        ("torch.cat([x, total / count], -1)", "torch.cat([x, total / count], -1).detach()", ""),
        ("return self.map", "x += 1\n        return self.map", "input unchanged"),
    )
    if fails
]


def cross(old: str, new: str, hint: str, stage: str, fails: str = "forward") -> Wrong:
    return Wrong(right.CROSS, "CrossAttention", old, new, hint, stage, fails)


CROSS = [
    cross("self.key(memory)), self.split(self.value(memory))", "self.key(x)), self.split(self.value(x))",
          "must be made of the memory", "keys"),
    cross("self.split(self.value(memory))", "self.split(memory)", "the memory itself is averaged", "mixed"),
    cross("self.value(memory)", "self.key(memory)", "values are made by the keys' map", "mixed"),
    cross("self.key(memory)", "self.value(memory)", "", "scores"),
    cross(SCALE, "", "not divided by √d", "scores"),
    cross(SOFT, "scores.softmax(-2)", "softmax goes over the queries", "weights"),
    cross("~mask[:, None, None, :]", "mask[:, None, None, :]", "the mask is upside down", "scores",
          "padded = unpadded"),
    cross("if mask is not None:", "if False:", "padding is looked at", "scores", "padded = unpadded"),
    cross("(weights @ v).transpose(1, 2).reshape(B, T, d)", "(weights @ v).reshape(B, T, d)", "not transposed back",
          "mixed"),
    cross("return self.output(mixed)", "return self.output(mixed) + x", "a residual connection", "output"),
]  # fmt: skip

ZOO = [*ATTENTION, *CROSS, *FUNCTION, *LAYER, *RMS, *POSITIONS, *POOLING, *FEED, *RECURRENT, *FUNCTIONS, *ENCODERS]
