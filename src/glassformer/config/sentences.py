"""Sentences of verdicts, advice and reports, kept in a file `sentences.toml` beside the code that selects them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def sentences(module: str) -> Mapping[str, str]:
    """Return the templates beside `module` by name, for `str.format`."""
    return tomllib.loads(files(module.rpartition(".")[0]).joinpath("sentences.toml").read_text("utf-8"))


def sentence(module: str, name: str, /, **facts: object) -> str:
    """Return the template `name` beside `module` (its `__name__`) with `facts` filled in."""
    return sentences(module)[name].format(**facts)
