"""Exercises: what is right, what is wrong and how it is said, odd values, mistakes that are known, hidden cases."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.teaching.answering import Here
from glassformer.teaching.exercise import (
    TOLERANCE,
    Answer,
    Case,
    Function,
    Item,
    Mistake,
    Module,
    difference,
    equals,
    near,
)

NAN, INF = math.nan, math.inf
TWO = torch.tensor([1.0, 2.0])


# --- difference ---


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (1, 1.0), (1.5, torch.tensor(1.5)), (1.5, torch.tensor([1.5])), (2, np.float32(2)), (2, np.int64(2)),
        (NAN, NAN), (INF, INF), (1e6, 1e6 + 1), (True, True), (True, torch.tensor(True)), (True, np.bool_(True)),
        ("a", "a"), (None, None), ([1, 2], (1, 2)), ((1, 2), [1.0, 2]), ([1, 2], torch.tensor([1, 2])),
        ([1, 2], np.array([1, 2])),
        ([], []), ({"a": 1}, {"a": 1.0}), (TWO, TWO.double()), (TWO, [1, 2]), (TWO, TWO.clone().requires_grad_()),
        (TWO, np.array([1.0, 2.0])), (torch.tensor([1, 2]), TWO), (torch.tensor(3.0), 3), (torch.tensor([NAN]), [NAN]),
        (torch.tensor([-INF, 1.0]), [-INF, 1.0]), (torch.zeros(0, 3), torch.zeros(0, 3)),
        ((TWO, TWO), [TWO, TWO]), (1000 * TWO, 1000 * TWO + 0.01),
    ],
    ids=str,
)  # fmt: skip
def test_the_same(expected: Any, given: Any) -> None:
    assert difference(expected, given, TOLERANCE) is None


@pytest.mark.parametrize(
    ("expected", "given", "line"),
    [
        (1, 1.001, "gives 1.001, and 1 is right"),
        (1, "1", "gives a text, not a number"),
        (1, True, "gives a bool, not a number"),
        (1, None, "gives nothing, not a number"),
        (1, [1], "gives a list, not a number"),
        (1, TWO, "gives a tensor, not a number"),
        (1, NAN, "gives nan, and 1 is right"),
        (1, -INF, "gives -inf, and 1 is right"),
        (1, 10**400, "gives a whole number beyond all bounds, and 1 is right"),
        (True, 1, "gives 1, not True"),
        (True, torch.tensor(False), "gives False, not True"),
        ("a", "b", "gives 'b', not 'a'"),
        ("a", None, "gives nothing, not 'a'"),
        (None, 0, "gives 0, not nothing"),
        ("a", "b" * 100, f"gives '{'b' * 58}…, not 'a'"),
        ([1, 2], [1, 3], "at 1: gives 3, and 2 is right"),
        ([1, 2], [1], "gives 1 thing, not 2"),
        ([1], {1}, "gives a set, not a list"),
        ((1, 2), 1, "gives a number, not a tuple"),
        ((TWO, TWO), TWO, "gives a tensor, not a tuple"),
        ((1, 2), torch.zeros(2**26, 1, dtype=torch.uint8), "gives the shape 67108864×1, not a tuple"),
        ((1, 2), torch.zeros(2, 2**25, dtype=torch.uint8), "gives the shape 2×33554432, not a tuple"),
        ([1, 2], torch.zeros(2, 10**9, 0), "gives the shape 2×1000000000×0, not a list"),
        ([[1, 2], [3, 4]], torch.zeros(2, 2), "at 0: at 0: gives 0, and 1 is right"),
        ([1, 2], torch.tensor(1.0), "gives a number, not a list"),
        ({"a": 1}, [1], "gives a list, not a dict"),
        ({"a": 1, "b": 2}, {"a": 1}, "has no b"),
        ({"a": 1}, {"a": 2}, "a: gives 2, and 1 is right"),
        ({"a": 1}, {"a": 1, "b": 2}, "has b too many"),
        (TWO, None, "gives nothing, not a tensor"),
        (TWO, "ab", "gives a text, not a tensor"),
        (TWO, ["a", "b"], "gives a list, not a tensor"),
        (TWO, [[1], [2, 3]], "gives a list, not a tensor"),
        (TWO, TWO[None], "gives the shape 1×2, not 2"),
        (TWO, 1.0, "gives one number, not the shape 2"),
        (torch.tensor(1.0), TWO, "gives the shape 2, not one number"),
        (torch.eye(2), torch.ones(2, 2), "gives 1 at [0, 1], and 0 is right"),
        (TWO, torch.tensor([1.0, NAN]), "gives nan at [1], and 2 is right"),
        (TWO, torch.tensor([INF, 2.0]), "gives inf at [0], and 1 is right"),
        (torch.tensor([INF]), torch.tensor([-INF]), "gives -inf at [0], and inf is right"),
        (torch.tensor([NAN]), torch.tensor([0.0]), "gives 0 at [0], and nan is right"),
        (torch.tensor(1.0), 2, "gives 2, and 1 is right"),
        (torch.tensor(1.0), 10**400, "gives a number, not a tensor"),
    ],
    ids=str,
)
def test_how_a_difference_is_said(expected: Any, given: Any, line: str) -> None:
    assert difference(expected, given, TOLERANCE) == line


def test_small_differences_are_a_share_of_the_largest_number() -> None:
    large = torch.tensor([1000.0, 0.0])
    assert difference(large, large + 0.009, TOLERANCE) is None
    assert difference(large, large + 0.011, TOLERANCE) is not None
    assert difference(TWO, TWO + 1e-4, TOLERANCE) is not None


# --- functions ---


def mean(x: Tensor, *, twice: bool = False) -> Tensor:
    return x.mean() * (2 if twice else 1)


def drawn(chance: torch.Generator) -> tuple[Tensor]:
    return (torch.rand(5, generator=chance) + 1,)


MEAN = Function(
    "mean",
    mean,
    [
        Case("some numbers", drawn, points=2),
        Case("twice", drawn, kwargs={"twice": True}),
        Case("others", drawn, visible=False, points=0.5),
    ],
    [
        Mistake("divide by how many there are", lambda x, twice=False: x.sum() * (2 if twice else 1)),
        Mistake("it cannot be made", lambda x, twice=False: x["none"]),
        Mistake("twice is forgotten", lambda x, twice=False: x.mean()),
    ],
)


def items(exercise: Any, value: Any, *, hidden: bool = True, seed: int = 0) -> list[Item]:
    return list(exercise.items(Here({exercise.name: value}), hidden=hidden, seed=seed))


def test_a_right_function_gets_all_points() -> None:
    assert [(item.points, item.line) for item in items(MEAN, mean)] == [(2, ""), (1, ""), (0.5, "")]
    assert MEAN.points == 3.5


def test_hidden_cases_are_for_grading_alone() -> None:
    assert [item.name for item in items(MEAN, mean, hidden=False)] == ["mean: some numbers", "mean: twice"]
    assert [item.visible for item in items(MEAN, mean)] == [True, True, False]


def test_a_mistake_that_is_known_is_named() -> None:
    said = [item.line for item in items(MEAN, lambda x, twice=False: x.sum() * (2 if twice else 1))]
    assert all(line.endswith(" is right; divide by how many there are") for line in said)


def test_a_mistake_counts_only_where_it_makes_a_difference() -> None:
    got = items(MEAN, lambda x, twice=False: x.mean())
    assert [item.points for item in got] == [2, 0, 0.5]
    assert got[1].line.endswith("; twice is forgotten")


def test_another_mistake_has_no_hint() -> None:
    for item in items(MEAN, lambda x, twice=False: x.amax() + 7):
        assert item.points == 0
        assert item.line.startswith("gives ")
        assert ";" not in item.line


def test_each_seed_draws_other_numbers() -> None:
    first, second = (items(MEAN, lambda x, twice=False: 0, seed=seed)[0].line for seed in (0, 1))
    assert first != second
    assert first == items(MEAN, lambda x, twice=False: 0)[0].line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (lambda x, twice=False: None, "gives nothing, not a tensor"),
        (lambda x: x.mean(), "raises TypeError"),
        (lambda x, twice=False: 1 / 0, "raises ZeroDivisionError: division by zero"),
        (3, "mean is int, not something to call"),
    ],
)
def test_what_goes_wrong_in_it_is_one_line(value: Any, line: str) -> None:
    said = [item.line for item in items(MEAN, value)]
    assert any(line in one for one in said), said
    assert not any("\n" in one for one in said)


def test_what_is_not_defined() -> None:
    (item, *_) = MEAN.items(Here({}))
    assert (item.points, item.out_of, item.line) == (0, 2, "mean is not defined")


def test_a_function_cannot_change_what_others_are_given() -> None:
    def spoils(x: Tensor, twice: bool = False) -> Tensor:
        result = mean(x, twice=twice)
        x.zero_()
        return result

    assert all(item.points == item.out_of for item in items(MEAN, spoils))


# --- modules ---


class Affine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Squared(Affine):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) ** 2


class Detached(Affine):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


class Unbiased(Affine):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.linear.weight.T


class Renamed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.other = nn.Linear(width, 2)


AFFINE = Module(
    "Affine",
    Affine,
    [
        Case("forward", lambda chance: (torch.randn(3, 4, generator=chance),), build={"width": 4}),
        Case("gradients", lambda chance: (torch.randn(3, 4, generator=chance),), build={"width": 4}, learn=True),
    ],
    [Mistake("the bias is forgotten", Unbiased)],
)


def test_a_right_module_with_the_weights_of_the_reference() -> None:
    assert [(item.points, item.line) for item in items(AFFINE, Affine)] == [(1, ""), (1, "")]


def test_a_modules_mistake_is_named() -> None:
    forward, gradients = (item.line for item in items(AFFINE, Unbiased))
    assert forward.endswith(" is right; the bias is forgotten")
    assert gradients.startswith("output: gives ")


def test_gradients_are_compared_where_asked_for() -> None:
    forward, gradients = items(AFFINE, Detached)
    assert forward.points == 1
    assert gradients.line == "input: gives nothing, not a tensor"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (Squared, "gives "),
        (Renamed, "has no linear.bias, linear.weight and has other.bias, other.weight too many"),
        (lambda width: 3, "Affine is not an nn.Module"),
        (lambda: 3, "cannot be built"),
    ],
)
def test_a_wrong_module(value: Any, line: str) -> None:
    item = items(AFFINE, value)[0]
    assert item.points == 0
    assert line in item.line


# --- answers ---

HEAD = Answer(
    "head",
    equals((1, 2)),
    "the head that looks back, as (layer, head)",
    worth=2,
    hints=[(equals((2, 1)), "layer first"), (lambda value: value[0] == 9, "there are fewer layers")],
)


@pytest.mark.parametrize(
    ("value", "points", "line"),
    [
        ((1, 2), 2, ""),
        ([1, 2], 2, ""),
        (torch.tensor([1, 2]), 2, ""),
        ((2, 1), 0, "(2, 1) is not the head that looks back, as (layer, head); layer first"),
        ((9, 0), 0, "(9, 0) is not the head that looks back, as (layer, head); there are fewer layers"),
        (7, 0, "7 is not the head that looks back, as (layer, head)"),
        ("1.2", 0, "'1.2' is not the head that looks back, as (layer, head)"),
        (torch.tensor(0.5), 0, "0.5 is not the head that looks back, as (layer, head)"),
        ({}, 0, "{} is not the head that looks back, as (layer, head)"),
    ],
    ids=str,
)
def test_an_answer(value: Any, points: float, line: str) -> None:
    assert [(item.points, item.out_of, item.line) for item in items(HEAD, value)] == [(points, 2, line)]


def test_an_answer_that_is_still_to_be_found() -> None:
    assert [item.line for item in items(HEAD, None)] == [
        "is still to be found: the head that looks back, as (layer, head)"
    ]
    assert [item.line for item in HEAD.items(Here({}))] == ["head is not defined"]


def test_a_hidden_answer() -> None:
    hidden = Answer("number", near(3, 0.1), "three", visible=False)
    assert items(hidden, 3, hidden=False) == []
    assert [item.points for item in items(hidden, 3.05)] == [1]


@pytest.mark.parametrize(
    ("value", "right"),
    [(3, True), (2.95, True), (torch.tensor(3.0), True), (np.float32(3), True), (3.2, False), (True, False),
     ("3", True), ("three", False), (None, False), (10**400, False), (NAN, False), (TWO, False)],
    ids=str,
)  # fmt: skip
def test_near(value: Any, right: bool) -> None:
    got = items(Answer("number", near(3, 0.1), "three"), value)
    assert [item.points for item in got] == [float(right)]


def test_the_hint_is_of_the_mistake_that_explains_most() -> None:
    """Of 2 and 4, the last is the largest too: what else was given tells them apart."""
    exercise = Function(
        "mean",
        lambda values: sum(values) / len(values),
        [Case("two", lambda chance: ([2.0, 4.0],)), Case("three", lambda chance: ([3.0, 7.0, 1.0],))],
        [Mistake("the last", lambda values: values[-1]), Mistake("the largest", max)],
    )
    first, second = exercise.items(Here({"mean": max}))
    assert first.line.endswith("; the largest")
    assert second.line.endswith("; the largest")


def test_a_teachers_own_mistake_is_said_to_be_one() -> None:
    broken = Function("mean", lambda values: 1 / 0, [Case("of none", lambda chance: ([],))])
    with pytest.raises(Misuse, match=r'the exercise mean itself fails, case "of none": ZeroDivisionError'):
        broken.items(Here({"mean": len}))


def test_numbers_that_look_alike_are_not_told() -> None:
    line = difference(torch.tensor([1.0, 2.0]), torch.tensor([1.00002, 5.0]), 1e-6)
    assert line == "gives 5 at [1], and 2 is right"
