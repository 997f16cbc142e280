"""Capture: only what is wanted is kept; modules of one's own are recorded too, bricks in them or not."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, visible
from glassformer.bricks.norm import LayerNorm, Residual
from glassformer.inspection.capture import capture
from helpers.support import numbers, randomise, same, tokens
from helpers.watching import MASK, VOCAB, B, T, check_attention, language_model, watched

# --- only ---


def test_only_what_is_wanted_is_kept() -> None:
    model = language_model(heads=2)
    with capture(model, ["*.weights", "logits"]) as seen:
        model(tokens(1, T, vocab=VOCAB))
    assert list(seen) == ["encoder.blocks.0.attend.weights", "encoder.blocks.1.attend.weights", "logits"]
    assert len(seen) == 3
    with pytest.raises(KeyError):
        seen["embed.vectors"]


@pytest.mark.parametrize(
    ("only", "alive"), [("logits", []), ("*.values", ["values"]), ("*.weights", ["queries", "keys"])], ids=str
)
def test_what_is_not_wanted_does_not_stay_in_memory(only: str, alive: list[str]) -> None:
    model = language_model(heads=2)
    passed: list[tuple[str, weakref.ref[Tensor]]] = []
    for block in model.encoder.blocks:
        for name in ("queries", "keys", "values", "mixed"):
            tap = getattr(block.attend, name)
            tap.register_forward_hook(lambda _, args, output, name=name: passed.append((name, weakref.ref(output))))
    with torch.inference_mode(), capture(model, [only]) as seen:
        model(tokens(1, T, vocab=VOCAB))
        assert [name for name, tensor in passed if tensor() is not None] == alive * 2
    assert len(passed) == 8
    assert len(seen) == (1 if only == "logits" else 2)


def test_what_may_be_seen_is_not_worked_out_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(queries: int, *more: Any, **flags: Any) -> Tensor | None:
        asked.append(queries)
        return visible(queries, *more, **flags)

    monkeypatch.setattr("glassformer.bricks.attention.visible", counted)
    model = language_model(heads=2)
    for only, times in (("*.values", 0), ("*.1.attend.scores", 1)):
        with capture(model, [only]):
            model(tokens(1, T, vocab=VOCAB))
        assert asked == [T] * times


# --- modules of one's own ---


def test_a_module_of_ones_own() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    seen = watched(model, torch.ones(1, 4))
    assert list(seen) == ["0.output", "1.output", "2.output", "logits"]


def test_a_module_of_ones_own_around_a_brick_and_a_model() -> None:
    """Bricks and models are recorded as always, all else by what it gives; lists of modules compute nothing."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before = nn.ModuleList([nn.Linear(16, 16)])
            self.brick = Attention(width=16, heads=2)
            self.after = nn.Sequential(nn.ReLU(), nn.Linear(16, 16))
            self.model = language_model("window", window=3)

        def forward(self, x: Tensor) -> Tensor:
            return self.after(self.brick(self.before[0](x))) + self.model(tokens(1, T, vocab=VOCAB)).sum()

    own = randomise(Own())
    seen = watched(own, numbers(1, T, 16).float())
    parts = "queries", "keys", "values", "scores", "weights", "mixed", "input", "output"
    inner = watched(own.model, tokens(1, T, vocab=VOCAB))
    assert list(seen) == [
        "before.0.output",
        *(f"brick.{name}" for name in parts),
        *(f"after{name}.output" for name in (".0", ".1", "")),
        *(f"model.{name}" for name in inner if name != "logits"),
        "model.output",
        "logits",
    ]
    same(seen["after.0.output"], seen["brick.output"].relu())
    same(seen["model.output"], inner["logits"])


def test_a_brick_by_itself() -> None:
    attention = randomise(Attention(width=12, heads=3, causal=True)).double()
    check_attention(attention, watched(attention, numbers(B, T, 12), MASK))
    around = Residual(norm=LayerNorm(12)).double()
    assert list(watched(around, numbers(B, T, 12), torch.relu)) == ["normed", "input", "output", "logits"]
