"""Wrong solutions of the lesson on words."""

COUNT = """
from collections import Counter

def merge_step(words):
    counts = Counter()
    for word in words:
        counts.update(zip(word, word[1:]))
    pair = max(counts, key=counts.get)
"""

WRONG: list[tuple[str, str, float, str]] = [
    (
        "merge_step",
        COUNT
        + """
    out = []
    for word in words:
        new = []
        for i in range(len(word) - 1):
            new.append(word[i] + word[i + 1] if (word[i], word[i + 1]) == pair else word[i])
        out.append(new)
    return pair, out
""",
        0,
        "gives",
    ),
    (
        "merge_step",
        COUNT
        + """
    out = []
    for word in words:
        new = []
        for i in range(len(word)):
            new.append(word[i] + word[i + 1] if tuple(word[i:i + 2]) == pair else word[i])
        out.append(new)
    return pair, out
""",
        0,
        "go on behind both tokens",
    ),
    (
        "merge_step",
        COUNT
        + """
    out = []
    for word in words:
        word = list(word)
        for i in range(len(word) - 1):
            if (word[i], word[i + 1]) == pair:
                word[i:i + 2] = ["".join(pair)]
                break
        out.append(word)
    return pair, out
""",
        4,
        "all places of a word are merged",
    ),
    (
        "merge_step",
        COUNT
        + """
    out = []
    for word in words:
        new, i = [], 0
        while i < len(word) - 1:
            if (word[i], word[i + 1]) == pair:
                new.append(word[i] + word[i + 1])
                i += 2
            else:
                new.append(word[i])
                i += 1
        out.append(new)
    return pair, out
""",
        0,
        "",
    ),
    (
        "merge_step",
        """
from collections import Counter

def merge_step(words):
    tokens = [token for word in words for token in word]
    pair = Counter(zip(tokens, tokens[1:])).most_common(1)[0][0]
    out = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            two = tuple(word[i:i + 2]) == pair
            new.append("".join(pair) if two else word[i])
            i += 2 if two else 1
        out.append(new)
    return pair, out
""",
        4,
        "the end of one and the start of the next",
    ),
    (
        "merge_step",
        """
from collections import Counter

def merge_step(words):
    counts = Counter(pair for word in set(map(tuple, words)) for pair in sorted(zip(word, word[1:])))
    pair = max(counts, key=counts.get)
    return "".join(pair), words
""",
        0,
        "gives a text, not a tuple",
    ),
    (
        "merge_step",
        COUNT.replace("for word in words:", "for word in dict.fromkeys(map(tuple, words)):")
        + """
    out = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            two = tuple(word[i:i + 2]) == pair
            new.append("".join(pair) if two else word[i])
            i += 2 if two else 1
        out.append(new)
    return pair, out
""",
        4,
        "counts ten times",
    ),
    (
        "tfidf",
        """
def tfidf(counts):
    n = len(counts)
    df = counts.sum(0)
    x = counts * (torch.log((1 + n) / (1 + df)) + 1)
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-9)
""",
        0,
        "df counts the texts that have the word",
    ),
    (
        "tfidf",
        """
def tfidf(counts):
    df = (counts > 0).sum(0)
    x = counts * torch.log((1 + len(counts)) / (1 + df))
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-9)
""",
        0,
        "the 1 after the logarithm",
    ),
    (
        "tfidf",
        """
def tfidf(counts):
    df = (counts > 0).sum(0)
    return counts * (torch.log((1 + len(counts)) / (1 + df)) + 1)
""",
        0,
        "not brought to length 1",
    ),
    (
        "tfidf",
        """
def tfidf(counts):
    df = (counts > 0).sum(0)
    x = counts * (torch.log((1 + len(counts)) / (1 + df)) + 1)
    return x / x.norm(dim=1, keepdim=True)
""",
        2,
        "0 divided by 0 is nan",
    ),
    (
        "tfidf",
        """
def tfidf(counts):
    df = (counts > 0).sum(0)
    x = counts * (torch.log((1 + len(counts)) / (1 + df)) + 1)
    return x / x.norm()
""",
        0,
        "is right",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return vectors.mean(dim=1)
""",
        0,
        "the padding is averaged too",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return (vectors * mask[:, :, None]).mean(1)
""",
        1,  # of a text without words it is right
        "not by the length with its padding",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return (vectors * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
""",
        2,
        "its average shall be 0",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return torch.stack([row[keep].mean(0) for row, keep in zip(vectors, mask)])
""",
        2,
        "its average shall be 0",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return vectors.masked_fill(mask.unsqueeze(-1), 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
""",
        0,
        "",
    ),
    (
        "average",
        """
def average(vectors, mask):
    words = ~mask
    return (vectors * words.unsqueeze(-1)).sum(1) / words.sum(1, keepdim=True).clamp(min=1)
""",
        0,
        "the mask is upside down",
    ),
    (
        "average",
        """
def average(vectors, mask):
    keep = (mask == 0).float()
    return (vectors * keep[:, :, None]).sum(1) / keep.sum(1)[:, None]
""",
        0,
        "",
    ),
    (
        "average",
        """
def average(vectors, mask):
    return (vectors * mask).sum(1) / mask.sum(1)
""",
        0,
        "raises",
    ),
    ("apart", "apart = 0.5", 0, "the same bag"),
]
