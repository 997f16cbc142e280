"""The documentation is built without a warning, its links lead somewhere, and a browser shows it without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from helpers.browser import visited
from test_lessons import SHORT

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "LESSON_SHARE": str(SHORT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _References(HTMLParser):
    """Where a page leads, what it loads, and the names that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {key: value for key, value in attributes if value is not None}
        self.names.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loaded.append(given["href"])


def pages(site: Path) -> Iterator[Path]:
    return (page for page in sorted(site.rglob("*.html")) if "panels" not in page.parts and page.name != "404.html")


def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    read = {page: _References(page.read_text()) for page in pages(site)}
    assert len(read) > 30
    for page, found in read.items():
        for address in found.loaded:
            assert urlsplit(address).scheme not in ("http", "https"), f"{page.name} loads {address}"
        for address in (*found.links, *found.loaded):
            target = urlsplit(address)
            if target.scheme not in ("http", "https", "data"):
                file = (page.parent / unquote(target.path)).resolve() if target.path else page
                file = file / "index.html" if file.is_dir() else file
                assert file.is_file(), f"{page.name}: {address}"
                if target.fragment and file in read:
                    assert unquote(target.fragment) in read[file].names, f"{page.name}: {address}"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_every_page_shows_itself_without_a_network(
    site: Path, browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    for path in pages(site):
        with visited(browser, path.as_uri(), width=width, scheme=scheme) as page:
            assert page.locator("h1").first.is_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path.name} is too wide"
            for at in range(page.locator("figure.look iframe").count()):
                frame = page.locator("figure.look iframe").nth(at)
                frame.scroll_into_view_if_needed()
                panel = frame.content_frame.locator(".panel").first
                panel.wait_for()
                page.wait_for_function(
                    "frame => frame.style.height", arg=frame.element_handle()
                )  # as high as its panels
                paper = panel.evaluate("node => getComputedStyle(node).backgroundColor")
                dark = sum(map(int, re.findall(r"\d+", paper)[:3])) < 3 * 128
                assert dark == (scheme == "dark"), f"{path.name}: a panel is {paper}"


def test_the_search_works_on_pages_from_the_disk(site: Path, browser: Browser) -> None:
    with visited(browser, (site / "index.html").as_uri(), width=1280) as page:
        page.keyboard.press("/")
        page.locator(".md-search__input").press_sequentially("rotary")
        page.locator(".md-search-result__item").first.wait_for()
