"""Wrong solutions of the lesson on a project of one's own."""

LEAKED = """
def leaked(train, test):
    known = {{{same} for text in train}}
    return [text for text in test if {same} in known]
"""
SCORES = """
def scores(confusion):
    right = confusion.diagonal()
    precision = right / confusion.sum({columns}).clamp(min={least})
    recall = right / confusion.sum({rows}).clamp(min={least})
    f1 = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
    return {{
        "accuracy": {accuracy}, "precision": precision, "recall": recall, "macro_f1": {macro}
    }}
"""
MCNEMAR = """
from math import comb
def mcnemar(first, second):
    b = sum(x and not y for x, y in zip(first, second))
    c = sum(y and not x for x, y in zip(first, second))
    n = {n}
    return {p}
"""


def leaked(same: str) -> str:
    return LEAKED.format(same=same)


def scores(**parts: str) -> str:
    right = {"columns": "0", "rows": "1", "least": "1", "accuracy": "right.sum() / confusion.sum()"}
    return SCORES.format(**{**right, "macro": "f1.mean()", **parts})


def mcnemar(p: str = "min(1, 2 * sum(comb(n, k) for k in range(min(b, c) + 1)) / 2**n)", n: str = "b + c") -> str:
    return MCNEMAR.format(n=n, p=p)


WRONG: list[tuple[str, str, float, str]] = [
    ("leaked", leaked("text"), 2, "are the same text"),
    ("leaked", leaked("text.lower()"), 2, "one between words, none around"),
    ("leaked", leaked("' '.join(text.split())"), 2, "compare in lower case"),
    (
        "leaked",
        "def leaked(train, test):\n    return list(set(train) & set(test))",
        1,
        "are the same text",
    ),
    (
        "leaked",
        "def leaked(train, test):\n    return sum(text in train for text in test)",
        0,
        "gives a number, not a list",
    ),
    (
        "leaked",
        "def leaked(train, test):\n    known = {' '.join(text.lower().split()) for text in train}\n"
        "    return [text for text in test if ' '.join(text.lower().split()) not in known]",
        0,
        "",
    ),
    ("scores", scores(columns="1", rows="0"), 0, "rows are the truth"),
    ("scores", scores(accuracy="recall.mean()"), 0, ""),
    ("scores", scores(macro="(f1 * confusion.sum(1)).sum() / confusion.sum()"), 0, "every class counts the same"),
    ("scores", scores(macro="((precision + recall) / 2).mean()"), 0, ""),
    (
        "scores",
        scores(macro="2 * precision.mean() * recall.mean() / (precision.mean() + recall.mean())"),
        0,
        "not the F1 of the means",
    ),
    ("scores", scores(least="0"), 3, "never guessed has a precision of 0"),
    ("scores", scores().replace(".clamp(min=1e-9)", ""), 3, ""),
    ("mcnemar", mcnemar("sum(comb(n, k) for k in range(min(b, c) + 1)) / 2**n"), 0, "so twice that"),
    ("mcnemar", mcnemar("2 * sum(comb(n, k) for k in range(min(b, c) + 1)) / 2**n"), 3, ""),
    ("mcnemar", mcnemar(n="len(first)"), 0, "say nothing"),
    ("mcnemar", mcnemar("min(1, 2 * sum(comb(n, k) for k in range(min(b, c))) / 2**n)"), 0, ""),
    ("mcnemar", mcnemar("min(1, 2 * comb(n, min(b, c)) / 2**n)"), 0, "sum them all"),
    ("mcnemar", mcnemar("min(1, 2 * sum(comb(n, k) for k in range(max(b, c) + 1)) / 2**n)"), 1, ""),
    ("rows_needed", "rows_needed = 225", 0, "not one"),
    ("rows_needed", "rows_needed = 2401", 0, "here it is 0.9"),
]
