"""Exercises on translation: attention masks, greedy decoding and beam search."""

from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Case, Exercise, answer, drawn, exercise

PAD = 0

# --- masks ---


def may_see(kind: str, source: Tensor, target: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    queries, keys = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}[kind]
    if mistake == "turned":
        queries, keys = keys, queries
    real = torch.ones_like(keys, dtype=torch.bool) if mistake == "padding" else keys != PAD
    seen = real.expand(len(queries), len(keys))
    causal = {"no future": (), "cross causal": ("decoder", "cross")}.get(mistake, ("decoder",))
    if kind in causal:
        seen = seen.tril(-1 if mistake == "itself" else 0)
    return ~seen if mistake == "hidden" else seen


@drawn
def _pair(chance: Generator, kind: str, *, padded: bool = True) -> tuple[str, Tensor, Tensor]:
    source, target = (torch.randint(1, 30, (length,), generator=chance) for length in (7, 5))
    if padded:
        source[5:], target[4:] = PAD, PAD
    return kind, source, target


# --- writing ---


def greedy(table: Tensor, start: int, end: int, longest: int, *, mistake: str = "") -> list[int]:
    """Return the right result, or the result of a known mistake."""
    written, last = list[int](), start
    for _ in range(longest + (mistake == "one more")):
        last = int(table[start if mistake == "one step" else last].argmax())
        if last == end and mistake != "never":
            return [*written, end] if mistake == "end" else written
        written.append(last)
    return written


Beginning = tuple[list[int], float]


def beam_search(
    table: Tensor, start: int, end: int, width: int, longest: int, *, mistake: str = ""
) -> tuple[list[int], float]:
    """Return the right result, or the result of a known mistake."""
    if mistake == "greedy":
        width = 1

    def rank(one: Beginning) -> float:
        return one[1] / len(one[0]) if mistake == "by length" else one[1]

    kept: list[Beginning] = [([start], 0.0)]
    for _ in range(longest):
        candidates: list[Beginning] = []
        for tokens, total in kept:
            if tokens[-1] == end and mistake != "go on":
                candidates += [] if mistake == "ended are lost" else [(tokens, total)]
                continue
            before = 0 if mistake == "last" else total
            candidates += [([*tokens, token], before + score) for token, score in enumerate(table[tokens[-1]].tolist())]
        kept = sorted(candidates, key=rank, reverse=True)[:width] or kept
        done = [tokens[-1] == end for tokens, _ in kept]
        if all(done) or (mistake == "first end" and any(done)):
            break
    tokens, total = max(kept, key=rank)
    return tokens[1:] if mistake == "end" else [token for token in tokens[1:] if token != end], total


@drawn
def _table(chance: Generator, words: int, *more: int, hurry: float, tells: Any) -> tuple[Any, ...]:
    """Draw the log-probabilities of the next token for each token, V×V, and return all arguments.

    Token 0 is the start, which never follows another token. The last token is the end.
    `tells`: test whether the arguments expose the mistakes; tables are drawn until one passes.
    """
    while True:
        scores = 1.5 * torch.randn(words, words, generator=chance)
        scores[:, 0] = -20
        scores[:, -1] += hurry
        args = scores.log_softmax(-1), 0, words - 1, *more
        if tells(args):
            return args


def _tells(function: Any, *mistakes: str) -> Any:
    """Return a test whether the results of a function and of its mistakes differ.

    The right result must have at least two tokens. It must differ from the result of every mistake, and the first two
    mistakes must have different results.
    """

    def tells(args: tuple[Any, ...]) -> bool:
        right = function(*args)
        tokens = right[0] if isinstance(right, tuple) else right
        if len(tokens) < 2 or (first := function(*args, mistake=mistakes[0])) == right:
            return False
        others = (function(*args, mistake=mistake) for mistake in mistakes[1:])
        return next(others, None) not in (right, first) and all(other != right for other in others)

    return tells


ENDS = _tells(greedy, "never", "one step")
GOES_ON = _tells(greedy, "one step", "one more")
LOST = ("ended are lost", "greedy", "first end", "go on", "last", "end")

EXERCISES: list[Exercise] = [
    exercise(
        may_see,
        Case("the encoder", _pair("encoder")),
        Case("the decoder", _pair("decoder")),
        Case("across", _pair("cross")),
        Case("across, without padding", _pair("cross", padded=False), visible=False),
    ),
    answer(__name__, "passes"),
    exercise(
        greedy,
        Case("until the end", _table(6, 12, hurry=0, tells=ENDS)),
        Case("no end in sight", _table(6, 7, hurry=-20, tells=GOES_ON)),
    ),
    exercise(
        beam_search,
        Case("two at a time", _table(6, 2, 6, hurry=0.5, tells=_tells(beam_search, *LOST)), points=2),
        Case("three at a time", _table(8, 3, 6, hurry=0.5, tells=_tells(beam_search, "by length", *LOST))),
        Case("a beam of one", _table(7, 1, 6, hurry=0, tells=_tells(beam_search, "last", "end")), visible=False),
        tolerance=1e-4,
    ),
]
