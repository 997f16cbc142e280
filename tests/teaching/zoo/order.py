"""Wrong solutions of the lesson on order."""


def elman(
    start: str = "torch.zeros(len(x), len(self.b))", body: str = "", result: str = "torch.stack(all_h, dim=1)"
) -> str:
    """A layer; what is not given is right."""
    body = (
        body
        or """
            h = torch.tanh(x[:, t] @ self.w_x.T + h @ self.w_h.T + self.b)
            all_h.append(h)"""
    )
    return f"""
class Elman(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(width, inputs) * 0.1)
        self.w_h = nn.Parameter(torch.randn(width, width) * 0.1)
        self.b = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        h = {start}
        all_h = []
        for t in range(x.shape[1]):{body}
        return {result}
"""


def lstm(
    gates: str = "i, f, g, o = (x @ w.T + h @ u.T + b).chunk(4, -1)",
    squash: str = "i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()",
    cell: str = "f * c + i * g",
    result: str = "o * torch.tanh(new), new",
) -> str:
    """A step; what is not given is right."""
    return f"""
def lstm_step(x, h, c, w, u, b):
    {gates}
    {squash}
    new = {cell}
    return {result}
"""


NO_STATE = """
            state = torch.tanh(x[:, t] @ self.w_x.T + h @ self.w_h.T + self.b)
            all_h.append(state)"""
EARLY = """
            all_h.append(h)
            h = torch.tanh(x[:, t] @ self.w_x.T + h @ self.w_h.T + self.b)"""
TURNED = """
            h = torch.tanh(x[:, t] @ self.w_x.T + h @ self.w_h + self.b)
            all_h.append(h)"""
DETACHED = """
            h = torch.tanh(x[:, t] @ self.w_x.T + h.detach() @ self.w_h.T + self.b)
            all_h.append(h)"""
LINEAR = """
            h = x[:, t] @ self.w_x.T + h @ self.w_h.T + self.b
            all_h.append(h)"""

WRONG: list[tuple[str, str, float, str]] = [
    ("reach", "reach = (12, 28)", 0, ""),
    ("reach", "reach = (10, 10)", 0, "the layers add 3, 6 and 12"),
    ("reach", "reach = 22", 0, "is not how many tokens it sees"),
    ("Elman", elman(body=NO_STATE), 1, "the state is not carried on"),
    ("Elman", elman(body=EARLY), 0, ""),
    ("Elman", elman(body=TURNED), 1, "W_h is turned around"),
    ("Elman", elman(body=DETACHED), 3, "detach cuts the gradient"),
    ("Elman", elman(body=LINEAR), 0, "tanh is missing"),
    ("Elman", elman(result="h"), 0, "gives the shape 2×4, not 2×5×4"),
    ("Elman", elman(result="torch.stack(all_h)"), 0, "gives the shape 5×2×4, not 2×5×4"),
    ("left", "left = 0.5 / 20", 0, "each word multiplies"),
    ("left", "left = 0", 0, "not quite nothing"),
    ("lstm_step", lstm(gates="i, f, o, g = (x @ w.T + h @ u.T + b).chunk(4, -1)"), 0, "the order of the four parts"),
    ("lstm_step", lstm(squash="i, f, g, o = (z.sigmoid() for z in (i, f, g, o))"), 0, "it may be negative"),
    ("lstm_step", lstm(cell="(1 - f) * c + i * g"), 1, ""),
    ("lstm_step", lstm(cell="i * c + f * g"), 0, "i and f are exchanged"),
    ("lstm_step", lstm(result="o * new, new"), 0, "tanh is missing"),
    ("lstm_step", lstm(result="new, o * torch.tanh(new)"), 0, "h comes first"),
    ("lstm_step", lstm(gates="i, f, g, o = (x @ w.T + h @ u.T).chunk(4, -1)"), 0, ""),
    ("lstm_step", lstm(result="o * torch.tanh(c), new"), 0, ""),
]
