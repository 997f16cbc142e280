"""Fixtures for the tests that open a page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser import Open, opened, started
from glassformer.inside.page import page
from glassformer.inside.view import View


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with started() as one:
        yield one


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Open:
    """One view of these panels, opened."""
    return lambda *panels, **size: opened(browser, page([View("A view", panels)], title="A view"), tmp_path, **size)
