"""One server in this process for all tests of a file, and the runs that it serves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.presets import MASKED
from helpers.look_runs import TINY, train_kind
from helpers.serving import Client, chatting_writer


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def writer(folder: Path) -> str:
    return chatting_writer(folder)


@pytest.fixture(scope="session")
def others(folder: Path) -> dict[str, str]:
    """Runs of other kinds, by name."""
    return {name: str(train_kind(name, folder)[0]) for name in ("classifier", "translator", "patches", "table")}


@pytest.fixture(scope="session")
def masked(folder: Path) -> str:
    """A masked language model with a byte-level tokenizer."""
    settings: dict[str, Any] = {**TINY, "model.context": 32, "tokenizer.vocab_size": 300}
    return str(gf.train("opinions:rows=200", task=MASKED, out=folder / "masked", **settings).run)


@pytest.fixture(scope="module")
def client(writer: str) -> Iterator[Client]:
    """Of a server of the writer alone."""
    with gf.serve(writer, port=0) as serving:
        yield Client(serving.url)
