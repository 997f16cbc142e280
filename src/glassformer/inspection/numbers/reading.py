"""The end of a model, step by step: pooling, the head, scores and probabilities; and the bag of words."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.activation import ACTIVATIONS
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.multilayer import Bias, MultilayerPerceptron
from glassformer.bricks.pooling import AttentionPool, Pool
from glassformer.config.arrays import Array
from glassformer.inspection.numbers.block import activation_name, applied, linear_panel
from glassformer.inspection.numbers.writing import (
    Sheet,
    Vector,
    added,
    answer_name,
    array,
    between,
    grid,
    joined,
    likeliest,
    linear,
    number,
    products,
    softmax_worked,
    worked,
)
from glassformer.rendering.panels import Panel, Table
from glassformer.text.display import bare

Row = list[str | float | int | None]

POOLS = {
    "pool_first": "s = x of the first token",
    "pool_last": "s = x of the last token",
    "pool_ends": "s = [first half of the last x; second half of the first x]",
    "pool_sum": "s = Σ x_t",
    "pool_mean": "s = Σ x_t / T",
    "pool_max": "s = max x_t, each number by itself",
    "pool_flatten": "s = [x_0; x_1; …]",
}


def pool_panels(
    pool: nn.Module, seen: Mapping[str, Tensor], tokens: Sequence[str], real: Bool[Array, "T"], shown: int
) -> list[Panel]:
    """One vector out of all; of those that are no padding."""
    x, out = array(seen["pool.input"][0])[real], array(seen["pool.output"])
    names = [token for token, there in zip(tokens, real, strict=True) if there]
    first = [number(one) for one in x[:, 0]]
    panels: list[Panel] = []
    formula, how = "s, the pool of all x", ""
    if isinstance(pool, AttentionPool):
        query, weights = array(pool.query), array(seen["pool.weights"][0])[real]
        scores, best = x @ query, int(np.argmax(weights))
        token = bare(names[best])
        panels = [
            between("Pool: scores", scores[None], ["w"], names, formula="score = w · x_t, w learned", signed=True,
                    worked=worked(f"score({token})", products(query, x[best]), float(scores[best]))),
            between("Pool: weights", weights[None], ["w"], names, formula="p = e^score / Σ e^score",
                    worked=softmax_worked(f"p({token})", scores, best, float(weights[best]))),
        ]  # fmt: skip
        formula, how = "s = Σ p_t x_t", products(weights, x[:, 0])
    elif isinstance(pool, Pool):
        name = pool.function.__name__
        formula = POOLS.get(name, formula)
        ways = {"pool_sum": added(first), "pool_mean": f"({added(first)}) / {len(first)}",
                "pool_max": f"max({', '.join(first)})"}  # fmt: skip
        how = ways.get(name, "")
    sentence = worked("s₀", how, float(out[0, 0])) if how else ""
    panels.append(grid("Pool: one vector for all", out, ["s"], formula=formula, worked=sentence, shown=shown))
    return panels


def bag_panels(
    bag: BagOfWords, ids: Int[Tensor, "1 T"], mask: Bool[Tensor, "1 T"] | None, tokens: Sequence[str], shown: int
) -> list[Panel]:
    """How often each word (or run of words) is there, what that counts, and the sum of the rows it picks."""
    found, real = bag.features(ids, mask)
    weights = bag.weights(found, real)
    names, rows, counts, places = _bag_rows(bag, ids[0], found[0], real[0], tokens)
    idf = array(bag.idf[rows])
    x = np.array([float(weights[0, place]) for place in places]) * counts
    table = array(bag.table.weight[rows])
    total = array(bag(ids, mask))
    tfidf = bag.weighting != "counts"
    columns = ["word", "count", *(["idf"] if tfidf else []), "x"]
    listed: list[Row] = [
        [name, int(count), *([float(rare)] if tfidf else []), float(value)]
        for name, count, rare, value in zip(names, counts, idf, x, strict=True)
    ]
    formula = "x = count"
    if tfidf:
        formula = "x = count · idf / √(Σ (count · idf)²), idf = ln((1 + n) / (1 + df)) + 1: n texts, df with the word"
        raw = counts * idf
        largest = int(np.argmax(x))
        squares = added([f"{number(one)}²" for one in raw])
        how = f"{int(counts[largest])}·{number(idf[largest])} / √({squares})"
        formula = f"{formula}\n{worked(f'x({names[largest]})', how, float(x[largest]))}"
    picked = x[:, None] * table
    sentence = worked("u₀", products(x, table[:, 0]), float(total[0, 0]))
    return [
        Table(title="The bag of words", columns=columns, rows=listed, note=formula),
        grid("What each word adds", picked, names, formula="x · its row of W", shown=shown),
        grid("Their sum", total, ["u"], formula="u = W x", worked=sentence, shown=shown),
    ]


def _bag_rows(
    bag: BagOfWords, ids: Int[Tensor, "T"], found: Int[Tensor, "F"], real: Bool[Tensor, "F"], tokens: Sequence[str]
) -> tuple[list[str], list[int], Array, list[int]]:
    """Every feature once: its name, its row of the table, how often it is there, and where first."""
    spans, between = bag.spans(ids), "" if bag.words else " "
    first: dict[int, int] = {}
    counts: dict[int, int] = {}
    for place, (row, there) in enumerate(zip(found.tolist(), real.tolist(), strict=True)):
        if there:
            first.setdefault(row, place)
            counts[row] = counts.get(row, 0) + 1
    places = list(first.values())
    names = [between.join(bare(token) for token in tokens[slice(*spans[place])]) for place in places]
    return names, list(first), np.array(list(counts.values()), dtype=np.float64), places


def head_panels(
    head: nn.Module, x: Float[Tensor, "1 d"], names: Sequence[str], *, shown: int, row: str = "s", letter: str = "s"
) -> list[Panel]:
    """Every layer of a head, from a vector to scores; `row`: whose vector it is, `letter`: what formulas call it."""
    panels: list[Panel] = []
    sheet = Sheet([row], 0, shown)
    layers = _layers_of(head)
    for place, (title, layer) in enumerate(layers):
        out = layer(x)
        given, made = array(x), array(out)
        if isinstance(layer, nn.Linear) and place == len(layers) - 1:
            panels.append(scores_panel(layer, given[0], made[0], names, sheet, letter))
        elif isinstance(layer, nn.Linear):
            panels.append(linear_panel(f"Head: {title}", layer, given, made, sheet, ("y", "W", letter)))
        elif isinstance(layer, Bias) or title in ACTIVATIONS:
            first = number(given[0, 0])
            y, formula, how = "a", f"a = {applied(title, letter)}", applied(title, first)
            if isinstance(layer, Bias):
                y, formula, how = "y", f"y = {letter} + b", joined(first, number(float(layer.bias[0])))
            panels.append(sheet.vectors(f"Head: {title}", made, formula, worked(sheet.cell(y), how, made[0, 0])))
        else:
            panels.append(sheet.vectors(f"Head: {title}", made, f"what it makes of {letter}"))
        x, letter = out, "a" if title in ACTIVATIONS else "y"
    return panels


def scores_panel(layer: nn.Linear, x: Vector, scores: Vector, names: Sequence[str], sheet: Sheet, letter: str) -> Panel:
    """A score for each answer; of many, the highest."""
    count = len(scores)
    many = count > sheet.shown
    order = np.argsort(-scores, kind="stable")[: sheet.shown] if many else np.arange(count)
    called = [answer_name(names, int(at), count) for at in order]
    first = int(order[0])
    bias = None if layer.bias is None else float(layer.bias[first])
    return grid(
        "Head: scores",
        scores[None, order],
        sheet.rows,
        formula=f"y = W {letter}" + ("" if bias is None else " + b"),
        note=f"The {len(order)} highest of {count} scores." if many else "",
        worked=worked(f"y({bare(called[0])})", linear(array(layer.weight[first]), x, bias), float(scores[first])),
        columns=called,
        shown=sheet.shown,
    )


def _layers_of(head: nn.Module) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
    """One after the other, with a name each, a non-linearity with its own; dropout does nothing here."""
    if isinstance(head, nn.Sequential):
        return [pair for part in head if not isinstance(part, nn.Dropout) for pair in _layers_of(part)]
    if isinstance(head, MultilayerPerceptron):
        bend = (activation_name(head.activation), head.activation)
        return [*(pair for layer in head.hidden for pair in (("hidden layer", layer), bend)), ("scores", head.output)]
    return [({Bias: "bias", nn.ReLU: "relu", nn.Linear: "scores"}.get(type(head), "its layer"), head)]


def answer_panels(scores: Vector, names: Sequence[str], *, shown: int, at: str = "") -> list[Panel]:
    """Scores → probabilities. One score and two names: logistic; one score and none: a number, and there it ends."""
    if len(scores) == 1 and len(names) != 2:
        return [grid("The answer", scores[None], ["y"], formula="y, in spreads above the mean", shown=shown)]
    if len(scores) == 1:
        second = float(1 / (1 + np.exp(-scores[0])))
        how = f"σ({number(scores[0])})"
        rows: list[Row] = [[names[1], float(scores[0]), second], [names[0], None, 1 - second]]
        note = "\n".join(
            ["p = σ(y) = 1 / (1 + e^−y), for the other class 1 − p", worked(f"p({names[1]})", how, second)]
        )
        columns = ["answer", "score", "probability"]
        return [Table(title="Probabilities", columns=columns, rows=rows, bars=["probability"], note=note)]
    probabilities = array(torch.softmax(torch.from_numpy(scores), -1))
    best = int(np.argmax(probabilities))
    best_name = bare(names[best]) if names else str(best)
    total = float(np.exp(np.logaddexp.reduce(scores)))
    how = f"e^{number(scores[best])} / {number(total)}"
    note = "\n".join(["p = e^y / Σ e^y", worked(f"p({best_name})", how, float(probabilities[best]))])
    return [likeliest(scores, probabilities, names, title=f"Probabilities{at}", note=note, shown=shown)]
