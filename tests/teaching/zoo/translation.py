"""Masks and decoding, as students get them wrong."""


def mask(encoder: str = "", decoder: str = "", cross: str = "") -> str:
    """Who may see whom; what is not given is right."""
    return f"""
def may_see(kind, source, target):
    S, T = len(source), len(target)
    if kind == "encoder":
        return {encoder or "(source != 0).expand(S, S)"}
    if kind == "decoder":
        return {decoder or "(target != 0).expand(T, T).tril()"}
    return {cross or "(source != 0).expand(T, S)"}
"""


def loop(first: str = "[]", step: str = "", check: str = "if token == end:\n            break", rest: str = "") -> str:
    """Greedy decoding; what is not given is right."""
    return f"""
def greedy(table, start, end, longest):
    written, token = {first}, start
    while len(written) < longest{rest}:
        token = int({step or "table[token].argmax()"})
        {check}
        written.append(token)
    return written
"""


def beam(
    ended: str = "candidates.append((tokens, total))",
    more: str = "range(len(table))",
    score: str = "total + table[tokens[-1], token].item()",
    keep: str = "[:width]",
    stop: str = "all",
    result: str = "[token for token in tokens[1:] if token != end], total",
) -> str:
    """Beam search; what is not given is right."""
    return f"""
def beam_search(table, start, end, width, longest):
    kept = [([start], 0.0)]
    for _ in range(longest):
        candidates = []
        for tokens, total in kept:
            if tokens[-1] == end:
                {ended}
                continue
            for token in {more}:
                candidates.append((tokens + [token], {score}))
        kept = sorted(candidates, key=lambda one: one[1], reverse=True){keep}
        if {stop}(tokens[-1] == end for tokens, _ in kept):
            break
    tokens, total = kept[0]
    return {result}
"""


WRONG: list[tuple[str, str, float, str]] = [
    (
        "may_see",
        mask("(source == 0).expand(S, S)", "(target == 0).expand(T, T)", "(source == 0).expand(T, S)"),
        0,
        "opposite",
    ),
    (
        "may_see",
        mask("torch.ones(S, S) > 0", "torch.ones(T, T).tril() > 0", "torch.ones(T, S) > 0"),
        1,
        "padding may be seen",
    ),
    ("may_see", mask(decoder="(target != 0).expand(T, T)"), 3, "has not written yet"),
    ("may_see", mask(decoder="(target != 0).expand(T, T).triu()"), 3, ""),
    ("may_see", mask(decoder="(target != 0).expand(T, T).tril(-1)"), 3, "may see itself"),
    ("may_see", mask(cross="(source != 0).expand(T, S).tril()"), 2, "all of the source may be seen"),
    ("may_see", mask(cross="(target != 0).expand(S, T)"), 2, "rows are those that look"),
    ("may_see", mask(encoder="(source != 0)[:, None] & (source != 0)[None]"), 3, ""),
    ("may_see", mask(encoder="(source != 0).expand(S, S).tril()"), 3, ""),
    ("may_see", mask(encoder="(source != 0)[:, None].expand(S, S)"), 3, ""),
    (
        "may_see",
        mask(
            "(source != 0).unsqueeze(1).expand(S, S)",
            "(target != 0).unsqueeze(1).expand(T, T).tril()",
            "(target != 0).unsqueeze(1).expand(T, S)",
        ),
        1,
        "",
    ),
    ("may_see", mask(cross="(source != 0)"), 2, "gives the shape"),
    ("passes", "passes = (11, 11)", 0, "learned in one pass"),
    ("passes", "passes = (1, 10)", 0, "the end is written too"),
    ("greedy", loop(first="[start]"), 0, ""),
    ("greedy", loop(check="if token == end:\n            return written + [end]"), 1, "the end is not written"),
    ("greedy", loop(check=""), 1, "goes on after the end"),
    ("greedy", loop(rest=" + 1"), 1, "one token more"),
    ("greedy", loop(rest=" - 1"), 1, ""),
    ("greedy", loop(step="table[start].argmax()"), 0, "not the start"),
    ("greedy", loop(step="table[token].argmin()"), 0, ""),
    ("beam_search", beam(keep="[:1]"), 1, "that is greedy"),
    ("beam_search", beam(score="table[tokens[-1], token].item()"), 0, "not by the last one"),
    ("beam_search", beam(more="[int(table[tokens[-1]].argmax())]"), 1, "that is greedy"),
    ("beam_search", beam(ended="pass"), 1, "stays among the candidates"),
    ("beam_search", beam(stop="any"), 1, "when all that are kept have ended"),
    ("beam_search", beam().replace("if tokens[-1] == end:", "if False:"), 1, "must not be continued"),
    ("beam_search", beam(result="(tokens, total)"), 0, ""),
    ("beam_search", beam(result="[token for token in tokens[1:] if token != end]"), 0, "gives"),
    ("beam_search", beam(result="(tokens[1:], total)"), 0, "the end is not written"),
    ("beam_search", beam(score="total + table[tokens[-1], token].exp().item()"), 0, ""),
    (
        "beam_search",
        beam(score="total * table[tokens[-1], token].exp().item()").replace("0.0)]", "1.0)]"),
        0,
        "",
    ),
    (
        "beam_search",
        beam(result="[t for t in tokens[1:] if t != end], total / len(tokens[1:])"),
        0,
        "",
    ),
    (
        "beam_search",
        beam(result="[t for t in tokens[1:] if t != end], total / len(tokens)").replace(
            "key=lambda one: one[1]", "key=lambda one: one[1] / len(one[0])"
        ),
        0,
        "",
    ),
]
