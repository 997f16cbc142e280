"""One panel of every kind, for the tests that draw them."""

from typing import Any

import numpy as np

from glassformer.rendering.panels import (
    Arrow,
    Branch,
    Brick,
    Chips,
    Choices,
    Diagram,
    Frames,
    Gallery,
    Grid,
    Group,
    Guesses,
    Heads,
    Line,
    Lines,
    Panel,
    Patches,
    Points,
    Table,
    Tokens,
    Tree,
    Words,
)

ROWS, COLUMNS = ["uno", "dos", "tres"], ["one", "two", "three", "four", "five"]
L, H = 2, 3


def rows_of_one(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


def weights() -> Any:
    """Head 1 of layer 1 looks at one token only; the others here and there."""
    out = rows_of_one(L, H, 3, 5)
    out[1, 1] = 0
    out[1, 1, [0, 1, 2], [4, 2, 0]] = 1
    return out


WEIGHTS = weights()
NAMES = [["a", "b", "c"], ["d", "looks one ahead", "f"]]
GREY = np.arange(64, dtype=np.uint8).reshape(8, 8, 1) * 4
RED = np.broadcast_to(np.array([200, 30, 10], np.uint8), (8, 8, 3))


def two_lanes(**more: Any) -> Diagram:
    """Two lanes; in the second, three groups of which the last two are like the first."""
    heat = np.array([[128, 255], [0, 191]], np.uint8)
    bricks = [
        Brick(name="source", title="source", kind="data", width=1, detail="uno dos"),
        Brick(name="embed", title="Word vectors", kind="embedding", width=16, parameters=12_345, code="def forward():"),
        Brick(name="target", title="target", kind="data", width=1, lane=1),
    ]
    arrows = [Arrow(start="source", end="embed", shape="S = 2")]
    last = "target"
    for block in range(3):
        names = [f"{part}{block}" for part in ("attend", "sum")]
        bricks += [
            Brick(name=names[0], title="Attention", kind="attention", width=16, hidden=64, parameters=400, lane=1,
                  group=f"block{block}", detail="2 heads", heat=heat,
                  numbers=[("shape", "2×2"), ("largest", f"{block + 1}.5")]),
            Brick(name=names[1], title="+", kind="add", width=16, lane=1, group=f"block{block}"),
        ]  # fmt: skip
        arrows += [
            Arrow(start=last, end=names[0], shape="T×d = 5×16"),
            Arrow(start=names[0], end=names[1], shape="T×d = 5×16"),
            Arrow(start=last, end=names[1], role="residual"),
            Arrow(start="embed", end=names[0], shape="S×d = 2×16", role="memory"),
        ]
        last = names[1]
    bricks.append(Brick(name="head", title="Scores", kind="head", width=200, lane=1, detail="16 → 200"))
    arrows += [Arrow(start=last, end="head", shape="T×d = 5×16"), Arrow(start="embed", end="head", role="tied")]
    groups = [Group(name=f"block{block}", title=f"block {block}", like="block0" if block else "") for block in range(3)]
    return Diagram(bricks=bricks, arrows=arrows, groups=groups, lanes=("encoder", "decoder"), **more)


PANELS: dict[str, Panel] = {
    "words": Words(text="First.\n\nSecond.", title="Said", note="beneath"),
    "table": Table(
        columns=["name", "share", "count"], rows=[["b", 0.25, 30], ["a", 0.75, 4], ["c", None, 12]], bars=["share"]
    ),
    "grid": Grid(
        values=np.array([[-2.0, 1.0], [0.0, -np.inf], [0.5, 2.0]]),
        rows=ROWS,
        columns=COLUMNS[:2],
        signed=True,
        numbers=True,
        formula="scores = Q Kᵀ / √d",
    ),
    "heads": Heads(weights=WEIGHTS, rows=ROWS, columns=COLUMNS, names=NAMES, layer=1, head=1),
    "patches": Patches(pixels=GREY, weights=rows_of_one(2, 2, 16, 16), grid=(4, 4)),
    "chips": Chips(
        lines=[["a", "b", "c"], ["ab", "c"]], names=["bytes", "a + b"], groups=[[0, 0, 1], [0, 1]], marked=[[], [0]]
    ),
    "tokens": Tokens(
        tokens=["good", " and", " bad"],
        values=np.array([[1.0, 0.02, -0.8], [0.5, 0.3, -0.4]]),
        names=["first", "second"],
        signed=True,
    ),
    "guesses": Guesses(
        tokens=["the", "cat"],
        layers=["layer 0", "layer 1"],
        guesses=[[["dog", "cat"], ["sat", "is"]], [["cat", "dog"], ["is", "sat"]]],
        probabilities=np.array([[[0.6, 0.2], [0.9, 0.05]], [[0.5, 0.4], [0.31, 0.3]]]),
        answers=["cat", "sat"],
    ),
    "points": Points(
        points=np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]]), labels=["pear", "Rome", "plum"], groups=["f", "c", "f"]
    ),
    "lines": Lines(
        series=[
            Line(name="train", x=[1, 10, 100, 1000], y=[8, 4, 2, 1], dots=True),
            Line(name="valid", x=[1, 10, 100], y=[9, float("nan"), 3], low=[8, 4, 2], high=[10, 6, 4], faint=True),
        ],
        x_name="updates",
        log_x=True,
        log_y=True,
    ),
    "gallery": Gallery(images=[GREY, RED], captions=["seven", "red"]),
    "choices": Choices(
        name="token",
        rows=["cat", "dog", "sat"],
        columns=["score", "÷ 2", "top-k 2", "probability"],
        values=np.array([[4.0, 0.0, 0.0, 0.75], [2.0, -1.0, -1.0, 0.25], [1.0, -1.5, -np.inf, 0.0]]),
        scales=[(0, 4), (-2, 0), (-2, 0), (0, 1)],
        why=["", "", "below top-k 2"],
    ),
    "tree": Tree(
        root="the",
        branches=[
            Branch(token="cat", parent=None, probability=0.6, fate="chosen", told="likely", id=5),
            Branch(
                token="dog", parent=None, probability=0.3, fate="kept", why="all after it dropped", told="less so", id=6
            ),
            Branch(token="sat", parent=0, probability=0.5, fate="chosen", why="ended, 1st: −0.6", told="likely", id=7),
            Branch(token="ran", parent=0, probability=0.1, fate="pruned", why="3rd of 2: −2.8", told="hardly", id=8),
            Branch(token="ran", parent=1, probability=0.2, fate="pruned", why="4th of 2: −2.81", told="hardly", id=8),
        ],
    ),
    "diagram": two_lanes(),
    "frames": Frames(
        name="updates",
        labels=["0", "100", "200"],
        frames=[[Heads(weights=rows_of_one(L, H, 3, 5, seed=s), rows=ROWS, columns=COLUMNS)] for s in (1, 2, 3)],
    ),
}
