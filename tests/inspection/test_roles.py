"""What heads do: hand-made attention has the scores it must have, and a second way of counting finds the same."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer.config.errors import Misuse
from glassformer.inspection.views.head_roles import (
    LONG_RANGE,
    PLAIN,
    ROLES,
    HeadRole,
    HeadStats,
    head_roles,
)
from glassformer.inspection.views.roles import role_panels
from glassformer.rendering.panels import Grid, Table

Weights = NDArray[np.float64]
IDS = [1, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5]


def looking(ids: Sequence[int], at: Callable[[int], int | None], *, causal: bool = True) -> Weights:
    """A head that looks at one place from each token, or evenly where there is none."""
    size = len(ids)
    weights = np.zeros((size, size))
    for t in range(size):
        place = at(t)
        if place is not None and 0 <= place < (t + 1 if causal else size):
            weights[t, place] = 1
        else:
            seen = t + 1 if causal else size
            weights[t, :seen] = 1 / seen
    return weights


def last_before(ids: Sequence[int], t: int) -> int | None:
    return max((s for s in range(t) if ids[s] == ids[t]), default=None)


def follower(ids: Sequence[int], t: int) -> int | None:
    before = last_before(ids, t)
    return None if before is None else before + 1


HEADS: dict[str, Callable[[int], int | None]] = {
    "previous": lambda t: t - 1,
    "next": lambda t: t + 1,
    "first": lambda t: 0,
    "itself": lambda t: t,
    "induction": lambda t: follower(IDS, t),
    "before": lambda t: last_before(IDS, t),
    "separator": lambda t: 4 if t > 5 else None,
}


def random_weights(*shape: int, size: int, causal: bool, seed: int = 0) -> Weights:
    scores = np.random.default_rng(seed).normal(size=(*shape, size, size)) * 2
    weights = np.exp(scores) * (np.tril(np.ones((size, size))) if causal else 1)
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("role", ROLES)
def test_a_head_that_does_one_thing_is_called_so(role: str) -> None:
    causal = role != "next"
    weights = looking(IDS, HEADS[role], causal=causal)[None, None]
    other = looking(IDS, lambda t: None, causal=causal)[None, None]
    [[one, even]] = head_roles(
        [(np.concatenate([weights, other], 1), IDS)], separators={8} if role == "separator" else ()
    )
    assert one.role == role
    assert one.own.shares[role] == pytest.approx(1)
    assert one.plainness(role) == pytest.approx(1)
    assert one.name == f"{ROLES[role]} (1.00)"
    assert even.role is None
    assert even.name == "spread evenly"
    assert even.own.shares == pytest.approx(even.even.shares)
    assert all(even.plainness(name) == pytest.approx(0) for name in even.own.shares)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_a_head_that_looks_far_away_alone_is_long_range(causal: bool) -> None:
    """One place at the far end of what may be seen, its farther half, and its nearer one."""
    ids = list(range(24))

    def among(start: float, end: float) -> Weights:
        """A head that spreads its weights over such a part of what may be seen but the first token, far away first."""
        weights = np.zeros((24, 24))
        for t in range(24):
            places = sorted(range(min(t, 1), t + 1 if causal else 24), key=lambda s: -abs(t - s))
            some = places[int(start * len(places)) : max(1, int(end * len(places)))] or places[-1:]
            weights[t, some] = 1 / len(some)
        return weights

    heads = np.stack([among(0, 0.1), among(0, 0.5), among(0.5, 1)])[None]
    [[farthest, farther, nearer]] = head_roles([(heads, ids)])
    ratio = [head.own.distance / head.even.distance for head in (farthest, farther, nearer)]
    assert ratio[0] > LONG_RANGE > ratio[2]
    assert ratio[1] == pytest.approx(LONG_RANGE, rel=0.07)  # but for the first token, which is a role
    assert farthest.is_long_range
    assert farthest.name == f"long range ({farthest.own.distance:.1f} tokens away)"
    assert not nearer.is_long_range
    rests = looking(ids, lambda t: 0, causal=causal)[None, None]
    assert not head_roles([(rests, ids)])[0][0].is_long_range  # that is an attention sink


def test_the_future_is_no_role_where_it_is_hidden() -> None:
    [[one]] = head_roles([(random_weights(1, 1, size=11, causal=True), IDS[:11])])
    assert "next" not in one.own.shares.keys() | one.counts.keys()
    [[one]] = head_roles([(random_weights(1, 1, size=11, causal=False), IDS[:11])])
    assert one.counts["next"] == 8  # positions 2 to 9


def test_tokens_that_count() -> None:
    [[one]] = head_roles([(random_weights(1, 1, size=12, causal=True), IDS)])
    # from 6 on there is a 5 before, and so on; the first 5 stands at 1, and 9 at 5
    assert one.counts == {"previous": 10, "first": 10, "itself": 10, "induction": 6, "before": 6}
    assert one.tokens == 10


@pytest.mark.parametrize(
    ("ids", "induction", "before"),
    [
        ([1, 5, 5, 5], 0, 1),  # at 3: the one at 1; what followed the last is the token itself
        ([1, 5, 6, 5], 0, 1),  # what followed is the previous token
        ([1, 5, 6, 7, 5], 1, 1),
        ([5, 6, 7, 5], 1, 0),  # the one before is the first token
        ([1, 5, 6, 7, 8], 0, 0),
    ],
)
def test_places_that_are_another_role_do_not_count(ids: list[int], induction: int, before: int) -> None:
    [[one]] = head_roles([(random_weights(1, 1, size=len(ids), causal=True), ids)])
    assert one.counts.get("induction", 0) == induction
    assert one.counts.get("before", 0) == before


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_means_over_texts_counted_by_hand(causal: bool) -> None:
    texts = [IDS, [1, 4, 4, 3, 4, 3, 3], [1, 2]]
    looked = [(random_weights(2, 3, size=len(ids), causal=causal, seed=seed), ids) for seed, ids in enumerate(texts)]
    roles = head_roles(looked)
    assert [len(layer) for layer in roles] == [3, 3]
    for layer, head in np.ndindex(2, 3):
        sums: dict[str, list[tuple[float, float]]] = {role: [] for role in ROLES}
        distances, entropies = list[tuple[float, float]](), list[tuple[float, float]]()
        for weights, ids in looked:
            for t in range(2, len(ids)):
                row, seen = weights[layer, head, t], range(t + 1 if causal else len(ids))
                after = follower(ids, t)
                earlier = [s for s in range(1, t - 1) if ids[s] == ids[t]]
                places = {
                    "previous": [t - 1],
                    "next": [t + 1] if not causal and t + 1 < len(ids) else [],
                    "first": [0],
                    "itself": [t],
                    "induction": [after] if after is not None and after < t - 1 else [],
                    "before": earlier,
                }
                for role, at in places.items():
                    if at:
                        sums[role].append((sum(row[s] for s in at), len(at) / len(seen)))
                far = [abs(t - s) for s in seen]
                distances.append((sum(row[s] * abs(t - s) for s in seen), sum(far) / len(far)))
                entropies.append((-sum(row[s] * math.log(row[s]) for s in seen), math.log(len(seen))))
        one = roles[layer][head]
        assert (one.layer, one.head) == (layer, head)
        for number, measured in enumerate((one.own, one.even)):
            expected = {role: float(np.mean([pair[number] for pair in all_])) for role, all_ in sums.items() if all_}
            assert measured.shares == pytest.approx(expected)
            assert measured.distance == pytest.approx(np.mean([pair[number] for pair in distances]))
            assert measured.entropy == pytest.approx(np.mean([pair[number] for pair in entropies]))
        assert one.counts == {role: len(all_) for role, all_ in sums.items() if all_}
        assert one.tokens == 10 + 5
        assert one.own.tokens == pytest.approx(math.exp(one.own.entropy))


def role_of(own: dict[str, float], even: dict[str, float], count: int = 40, **rest: float) -> HeadRole:
    """Of a head with these shares."""
    measured = HeadStats(own, rest.get("distance", 5.0), rest.get("entropy", 1.0))
    return HeadRole(0, 0, measured, HeadStats(even, 6.0, 2.0), dict.fromkeys(own, count), 40)


def test_names() -> None:
    even = {"previous": 0.2, "first": 0.5}
    assert role_of({"previous": 0.7, "first": 0.75}, even).name == "looks at the previous token (0.70)"
    assert role_of({"previous": 0.3, "first": 0.80}, even).name == "rests on the first token (0.80)"
    just = 0.2 + PLAIN * 0.8
    assert role_of({"previous": just + 1e-9, "first": 0.0}, even).role == "previous"
    assert role_of({"previous": just - 1e-3, "first": 0.0}, even).role is None
    low = {"previous": 0.3, "first": 0.5}
    assert role_of(low, even).name == "without a plain role (5.0 tokens away)"
    assert role_of(low, even, entropy=1.8).name == "spread evenly"
    assert role_of(low, even, entropy=1.79).name == "without a plain role (5.0 tokens away)"
    assert role_of(low, even, distance=9.0).name == "long range (9.0 tokens away)"


def test_a_few_tokens_make_no_role() -> None:
    even = {"previous": 0.2}
    assert role_of({"previous": 1.0}, even, count=4).role is None
    assert role_of({"previous": 1.0}, even, count=5).role == "previous"


def test_where_evenness_says_it_all_nothing_is_plain() -> None:
    assert role_of({"before": 1.0}, {"before": 1.0}).role is None


def test_texts_that_are_too_short() -> None:
    with pytest.raises(Misuse) as caught:
        head_roles([(random_weights(1, 1, size=2, causal=True), [1, 2])])
    assert str(caught.value) == "what heads do shows in texts of three tokens or more, and there is none"


def test_weights_of_another_text() -> None:
    with pytest.raises(ValueError, match="weights from 5 tokens to 5 do not belong to a text of 4"):
        head_roles([(random_weights(1, 1, size=5, causal=True), [1, 2, 3, 4])])


def two_layers() -> list[list[HeadRole]]:
    ways = [["previous", "first"], ["previous", "induction"], [None, "itself"]]
    weights = [[looking(IDS, HEADS[way] if way else lambda t: None) for way in layer] for layer in ways]
    return head_roles([(np.array(weights), IDS)])


def test_the_view() -> None:
    roles = two_layers()
    table, grid = role_panels(roles)
    assert isinstance(table, Table)
    assert isinstance(grid, Grid)
    shown = ["previous", "first", "itself", "induction", "before"]
    assert table.columns == ["head", "what it does", *shown, "distance", "tokens"]
    assert table.bars == shown
    assert [row[0] for row in table.rows] == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1", "spread evenly"]
    assert [row[1] for row in table.rows[:4]] == [
        "looks at the previous token (1.00)",
        "rests on the first token (1.00)",
        "looks at the previous token (1.00)",
        "continues what was seen before (1.00)",
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.rows[0][2:5] == [1.0, 0.0, 0.0]
    assert table.rows[0][-2:] == [1.0, 1.0]  # one token away, one token looked at
    assert table.rows[4][2:] == table.rows[-1][2:]
    assert grid.rows == [
        "0.0 looks at the previous token",
        "0.1 rests on the first token",
        "1.0 looks at the previous token",
        "1.1 continues what was seen before",
        "2.0",
        "2.1 looks at itself",
        "spread evenly",
    ]
    assert grid.columns == shown
    np.testing.assert_array_equal(grid.values, [row[2:7] for row in table.rows])
    assert table.takeaway == "5 of 6 heads have a plain role"
    assert table.title == "Heads, measured at 10 tokens"
    assert grid.takeaway == "The plainest: head 0.0 looks at the previous token (1.00)"


def test_heads_without_a_role_in_words() -> None:
    weights = looking(IDS, lambda t: None)[None, None]
    table, grid = role_panels(head_roles([(weights, IDS)]))
    assert table.takeaway == "0 of 1 heads have a plain role"
    assert grid.takeaway == "No head has a plain role"
