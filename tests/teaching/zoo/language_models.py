"""Perplexity and sampling, as students get them wrong."""


def chances(cool: str = "scores / temperature", k: str = "", p: str = "", result: str = "cool.softmax(-1)") -> str:
    """What is sampled from; what is not given is right."""
    k = k or "cool = cool.masked_fill(cool < cool.sort(descending=True).values[:top_k][-1], -torch.inf)"
    p = p or "chosen = order[(chances.cumsum(0) - chances) < top_p]"
    return f"""
def next_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    cool = {cool}
    if top_k is not None:
        {k}
    if top_p is not None:
        chances, order = cool.softmax(-1).sort(descending=True)
        {p}
        kept = torch.full_like(cool, -torch.inf)
        kept[chosen] = cool[chosen]
        cool = kept
    return {result}
"""


def perplexity(result: str) -> str:
    return f"""
def perplexity(probabilities):
    return {result}
"""


NOT_EVEN = """
        chances = cool.softmax(-1)
        return chances * (chances >= chances.topk(min(top_k, len(chances))).values[-1])
"""
LOWEST = "cool = cool.masked_fill(cool > cool.sort().values[:top_k][-1], -torch.inf)"
ZEROS = "cool = torch.where(cool < cool.sort(descending=True).values[:top_k][-1], 0, cool)"

WRONG: list[tuple[str, str, float, str]] = [
    ("perplexity", perplexity("torch.exp(-probabilities.log().sum())"), 0, "not their sum"),
    ("perplexity", perplexity("-probabilities.log().mean()"), 0, "that is the loss"),
    ("perplexity", perplexity("probabilities.log().mean().exp()"), 0, "the sign is missing"),
    ("perplexity", perplexity("2 ** -probabilities.log().mean()"), 0, "of e, not of 2"),
    ("perplexity", perplexity("torch.exp(-probabilities.log2().mean())"), 0, ""),
    ("perplexity", perplexity("1 / probabilities.mean()"), 1, "not of the probabilities"),
    ("perplexity", perplexity("(1 / probabilities).mean()"), 1, ""),
    ("perplexity", perplexity("(1 / probabilities).prod()"), 0, "not their sum"),
    ("perplexity", perplexity("probabilities.log().exp().neg().softmax()"), 0, "raises TypeError"),
    ("next_distribution", chances("scores * temperature"), 2, "not multiplied"),
    ("next_distribution", chances("scores"), 2, ""),
    ("next_distribution", chances("scores", result="cool.softmax(-1) / temperature"), 2, "gives"),
    ("next_distribution", chances(k="pass"), 4, ""),
    ("next_distribution", chances(k=LOWEST), 4, ""),
    ("next_distribution", chances(k=ZEROS), 4, "use -inf"),
    ("next_distribution", chances(k=NOT_EVEN), 4, "must sum to 1 again"),
    ("next_distribution", chances(k="cool = cool.topk(min(top_k, len(cool))).values"), 3, "gives the shape"),
    (
        "next_distribution",
        chances(k="cool[cool.topk(top_k).indices.logical_not()] = -torch.inf"),
        3,
        "raises IndexError",
    ),
    ("next_distribution", chances(p="chosen = order[chances.cumsum(0) <= top_p]"), 4, "reaches top_p"),
    ("next_distribution", chances(p="chosen = order"), 4, ""),
    (
        "next_distribution",
        chances(result="cool.softmax(-1).sort(descending=True).values"),
        0,
        "",
    ),
    ("pronoun_head", "pronoun_head = (1, 1)", 0, "count from 0"),
    ("pronoun_head", "pronoun_head = [1, 0]", 0, "another one more"),
    ("pronoun_head", "pronoun_head = 0", 0, "as (layer, head)"),
]
