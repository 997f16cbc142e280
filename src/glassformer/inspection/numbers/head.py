"""The end of a model, step by step: pooling, the head, scores and probabilities; and the bag of words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.feed_forward import ACTIVATION_MODULES, ACTIVATIONS, Bias, MultilayerPerceptron
from glassformer.bricks.pooling import AttentionPool, Pool
from glassformer.config.arrays import Array
from glassformer.inspection.numbers.steps import (
    Activations,
    Step,
    Term,
    Vector,
    activate,
    activation_name,
    added,
    answer_name,
    array,
    combine,
    grid,
    linear,
    lines,
    number,
    products,
    score_panels,
    term,
    worked,
)
from glassformer.rendering.panels import Panel, Table
from glassformer.rendering.takeaways import LIKELIEST, leading
from glassformer.text.display import bare, quoted

Row = list[str | float | int | None]

POOLS = {
    "pool_first": Term("x of the first token", ""),
    "pool_last": Term("x of the last token", ""),
    "pool_ends": Term("[first half of the last x; second half of the first x]", ""),
    "pool_sum": Term("Σ x_t", "{sum}"),
    "pool_mean": Term("Σ x_t / T", "({sum}) / {count}"),
    "pool_max": Term("max x_t, each number by itself", "max({list})"),
    "pool_flatten": Term("[x_0; x_1; …]", ""),
}
"""The formulas of pools by function; the numbers in braces are those of all tokens."""


def pool_panels(pool: nn.Module, acts: Activations, real: Bool[Array, "T"]) -> Iterator[Panel]:
    """Show how one vector is made of all those that are not padding."""
    x = acts["input"][real]
    tokens = [token for token, there in zip(acts.tokens, real, strict=True) if there]
    first = [number(value) for value in x[:, 0]]
    symbol, how = "s, the pool of all x", None
    if isinstance(pool, AttentionPool):
        query, weights = array(pool.query), acts["weights"][real]
        scores, best = x @ query, int(np.argmax(weights))
        looking = replace(acts.beside(["w"]), title="Pool")
        score = Term("w · x_t, w learned", products(query, x[best]))
        yield from score_panels(looking, acts.beside(tokens, best), scores[None], weights[None], score)
        symbol, how = "s", Term("Σ α_t x_t", products(weights, x[:, 0]))
    elif isinstance(pool, Pool) and pool.function.__name__ in POOLS:
        letters, numbers = astuple(POOLS[pool.function.__name__])
        symbol, how = "s", Term(letters, numbers.format(sum=added(first), count=len(first), list=", ".join(first)))
    yield acts.beside(()).panel(Step("Pool: one vector for all", {"s": acts["output"]}, symbol, how))


def bag_panels(
    bag: BagOfWords, ids: Int[Tensor, "1 T"], mask: Bool[Tensor, "1 T"] | None, acts: Activations
) -> list[Panel]:
    """How often each word (or run of words) is there, what that counts, and the sum of the rows it picks."""
    features, real = bag.features(ids, mask)
    weights = array(bag.weights(features, real)[0])
    first: dict[int, int] = {}
    """Every feature once, by its row of the table: where it stands first."""
    for place in torch.nonzero(real[0]).flatten().tolist():
        first.setdefault(int(features[0, place]), place)
    rows, places = list(first), list(first.values())
    counts = np.array([int((features[0][real[0]] == row).sum()) for row in rows], dtype=np.float64)
    spans, between = bag.spans(ids[0]), "" if bag.words else " "
    names = [between.join(bare(token) for token in acts.tokens[slice(*spans[place])]) for place in places]
    idf, table, x = array(bag.idf[rows]), array(bag.table.weight[rows]), weights[places] * counts
    columns: dict[str, Sequence[str | float]] = {"word": names, "count": [int(count) for count in counts]}
    formula = "x = count"
    if bag.weighting != "counts":
        columns["idf"] = idf.tolist()
        largest = int(np.argmax(x))
        squares = added([f"{number(value)}²" for value in counts * idf])
        how = f"{int(counts[largest])}·{number(idf[largest])} / √({squares})"
        formula = lines(
            "x = count · idf / √(Σ (count · idf)²), idf = ln((1 + n) / (1 + df)) + 1: n texts, df with the word",
            worked(f"x({names[largest]})", how, float(x[largest])),
        )
    columns["x"] = x.tolist()
    listed = [list(row) for row in zip(*columns.values(), strict=True)]
    total = Step("Their sum", {"u": array(bag(ids, mask)[0])}, "u", Term("W x", products(x, table[:, 0])))
    return [
        Table(title="The bag of words", columns=list(columns), rows=listed, note=formula),
        acts.beside(names).panel(Step("What each word adds", x[:, None] * table, "x · its row of W")),
        acts.beside(()).panel(total),
    ]


def head_panels(
    head: nn.Module, x: Float[Tensor, "1 d"], names: Sequence[str], acts: Activations, letter: str = "s"
) -> Iterator[Panel]:
    """Every layer of a head, from a vector to scores; `letter`: what formulas call the vector."""
    layers = _layers_of(head)
    for place, (title, layer) in enumerate(layers):
        out = layer(x)
        given, made = array(x), array(out)
        if isinstance(layer, nn.Linear) and place == len(layers) - 1:
            yield scores_panel(layer, given[0], made[0], names, acts, letter)
        else:
            yield acts.panel(_layer_step(title, layer, given, made, letter))
        x, letter = out, "a" if title in ACTIVATIONS else "y"


def _layer_step(
    title: str, layer: Callable[[Tensor], Tensor], x: Float[Array, "1 d"], out: Float[Array, "1 e"], letter: str
) -> Step:
    first = term(letter, x[0, 0])
    if isinstance(layer, nn.Linear):
        return Step(f"Head: {title}", out, "y", linear(f"W {letter}", layer, x[0]))
    if isinstance(layer, Bias):
        return Step(f"Head: {title}", out, "y", combine("{x} + {b}", x=first, b=term("b", float(layer.bias[0]))))
    if title in ACTIVATIONS:
        return Step(f"Head: {title}", out, "a", activate(title, first))
    return Step(f"Head: {title}", out, f"what it makes of {letter}")


def scores_panel(
    layer: nn.Linear, x: Vector, scores: Vector, names: Sequence[str], acts: Activations, letter: str
) -> Panel:
    """A score for each answer; of many, the highest."""
    count = len(scores)
    many = count > acts.shown
    order = np.argsort(-scores, kind="stable")[: acts.shown] if many else np.arange(count)
    called = [answer_name(names, int(at), count) for at in order]
    first = int(order[0])
    score = linear(f"W {letter}", layer, x, row=first)
    return grid(
        "Head: scores",
        scores[None, order],
        acts.tokens,
        formula=f"y = {score.letters}",
        note=f"The {len(order)} highest of {count} scores." if many else "",
        worked=worked(f"y({bare(called[0])})", score.numbers, float(scores[first])),
        columns=called,
        shown=acts.shown,
    )


def _layers_of(head: nn.Module) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
    """The layers one after the other, with a name each, a non-linearity with its own; dropout does nothing here."""
    if isinstance(head, nn.Sequential):
        return [pair for part in head for pair in _layers_of(part)]
    if isinstance(head, nn.Dropout | nn.Identity):
        return []
    if isinstance(head, MultilayerPerceptron):
        bend = (activation_name(head.activation), head.activation)
        return [*(pair for layer in head.hidden for pair in (("hidden layer", layer), bend)), ("scores", head.output)]
    titles: dict[type[nn.Module], str] = {
        Bias: "bias",
        nn.Linear: "scores",
        **{kind: name for name, kind in ACTIVATION_MODULES.items()},
    }
    return [(titles.get(type(head), "its layer"), head)]


def answer_panel(scores: Vector, names: Sequence[str], acts: Activations, title: str = "Probabilities") -> Panel:
    """Return the probabilities of scores. One score and two names: logistic; one score and no name: a number."""
    if len(scores) == 1 and len(names) != 2:
        return acts.panel(Step("The answer", {"y": scores}, "y, in spreads above the mean"))
    if len(scores) == 1:
        p = float(1 / (1 + np.exp(-scores[0])))
        rows: list[Row] = [[names[1], float(scores[0]), p], [names[0], None, 1 - p]]
        formula, more = "p = σ(y) = 1 / (1 + e^−y), for the other class 1 − p", ""
        how = f"σ({number(scores[0])})"
    else:
        probabilities = array(torch.softmax(torch.from_numpy(scores), -1))
        order = np.argsort(-probabilities, kind="stable")[: acts.shown]
        rows = [[names[at] if names else int(at), float(scores[at]), float(probabilities[at])] for at in order]
        p = float(probabilities[order[0]])
        formula, more = "p = e^y / Σ e^y", f"The {len(order)} likeliest of {len(scores)}."
        how = f"e^{number(scores[order[0]])} / {number(float(np.exp(np.logaddexp.reduce(scores))))}"
    return Table(
        title=title,
        takeaway=leading([quoted(str(row[0])) for row in rows], [float(row[2] or 0) for row in rows], LIKELIEST),
        columns=["answer", "score", "probability"],
        rows=rows,
        bars=["probability"],
        note=lines(more, formula, worked(f"p({bare(str(rows[0][0]))})", how, p)),
    )
