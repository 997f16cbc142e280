"""Arguments held against the types that a verb says."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
import pytest

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse


@check_arguments
def verb(
    count: int = 1,
    *,
    data: str | Path | None = None,
    share: float | None = None,
    name: str | Path | None = None,
    flag: bool = False,
    several: str | Sequence[str] | None = None,
    examples: str | Iterable[Any] = "",
    **rest: Any,
) -> str:
    return "done"


@pytest.mark.parametrize(
    "given",
    [
        {"count": np.int64(3), "share": 1, "name": Path("a"), "flag": True, "several": ["a"], "examples": None},
        {"share": np.float32(0.5), "name": "a", "several": "a", "anything": object()},
    ],
)
def test_what_fits_passes(given: dict[str, Any]) -> None:
    assert verb(**given) == "done"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"count": "5"}, "count wants a whole number, not '5'"),
        ({"count": 1.5}, "count wants a whole number, not 1.5"),
        ({"count": True}, "count wants a whole number, not True"),
        ({"count": None}, "count wants a whole number, not None"),
        ({"share": "x"}, "share wants a number, not 'x'"),
        ({"name": 5}, "name wants text or a path, not 5"),
        ({"flag": "yes"}, "flag wants True or False, not 'yes'"),
        ({"several": 5}, "several wants text or several, not 5"),
        ({"name": [1]}, "name wants text or a path, not a list"),
        ({"data": pd.DataFrame({"text": ["a"]})}, "data wants text or a path, not a DataFrame"),
    ],
)
def test_what_does_not_fit_is_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(Misuse) as error:
        verb(**given)
    assert str(error.value) == line


class Options(TypedDict, total=False):
    count: int


@check_arguments
def verb_with_options(**options: Unpack[Options]) -> int:
    return options.get("count", 0)


def test_options_of_a_typed_dict() -> None:
    assert verb_with_options(count=3) == 3
    with pytest.raises(Misuse, match="count wants a whole number, not 'three'"):
        verb_with_options(count="three")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"verb_with_options\(\) got an unexpected keyword argument 'cuont'"):
        verb_with_options(cuont=1)  # type: ignore[call-arg]
