"""A real browser for pages: with the network off, and every complaint of the page a failure."""

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from glassformer.rendering.panels import Panel

PATIENCE = 300_000
"""Milliseconds after which a page is taken to hang: the machine may be busy."""


def chromium() -> str:
    """Where it is; without one the test is skipped, or fails where GLASSFORMER_BROWSER=required."""
    found = os.environ.get("GLASSFORMER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    reason = "no chromium found: install it, or name it in GLASSFORMER_CHROMIUM"
    if os.environ.get("GLASSFORMER_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def started() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, html: str, folder: Path, *, width: int = 1200, height: int = 900) -> Iterator[Page]:
    """A page of ours in a window."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    with visited(browser, path.as_uri(), width=width, height=height) as page:
        yield page


@contextmanager
def visited(
    browser: Browser, address: str, *, width: int = 1200, height: int = 900, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """A page from the disk; when it closes, it must have asked the network for nothing and complained of nothing."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    context.set_offline(True)
    wrong: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if _outside(request.url) else None)
    page.route("**/*", lambda route: route.abort() if _outside(route.request.url) else route.continue_())
    page.goto(address)
    settle(page)
    yield page
    context.close()
    assert not wrong, wrong


def _outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "about:"))


def settle(page: Page) -> None:
    """Until what was asked for is drawn: sizes are told in one frame, and drawn in the next."""
    page.evaluate(
        "() => new Promise(done => { let left = 4; const next = () => left-- ? requestAnimationFrame(next) : done();"
        " next(); })"
    )


READ = """(one, [x, y, wide, high]) => {
  const copy = new OffscreenCanvas(one.width, one.height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(one, 0, 0);
  const bytes = copy.getImageData(x, y, wide || one.width, high || one.height).data, parts = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return btoa(parts.join(''));
}"""
"""Of a copy: a canvas that is read often is drawn in another way, and says so."""


def pixels(canvas: Locator) -> NDArray[np.int64]:
    """All of a canvas, a line for each pixel: red, green, blue and opacity."""
    return _read(canvas, 0, 0, 0, 0)


def colour(canvas: Locator, x: float, y: float) -> tuple[int, int, int]:
    """Red, green and blue at one place of a canvas."""
    red, green, blue, _ = _read(canvas, round(x), round(y), 1, 1)[0].tolist()
    return red, green, blue


def _read(canvas: Locator, *box: int) -> NDArray[np.int64]:
    data = base64.b64decode(canvas.evaluate(READ, list(box)))
    return np.frombuffer(data, np.uint8).reshape(-1, 4).astype(np.int64)


def find(canvas: Locator, line: Locator, text: str) -> tuple[float, float]:
    """Where on a canvas the line reads so, when the mouse points there."""
    box: Any = canvas.bounding_box()
    place = canvas.evaluate(
        """async (one, [width, height, text]) => {
          const line = one.closest('.panel').querySelector('.reading'), box = one.getBoundingClientRect();
          for (let y = 4; y < height; y += 6) for (let x = 4; x < width; x += 6) {
            one.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + x, clientY: box.top + y }));
            if (line.textContent.includes(text)) return [x, y];
          }
          return null;
        }""",
        [box["width"], box["height"], text],
    )
    assert place, f"nowhere does it read {text!r}"
    x, y = place[0] + 3, place[1] + 3  # away from the edge at which it began
    canvas.hover(position={"x": x, "y": y})
    assert text in line.inner_text()
    return x, y


def contrasts(spans: Locator) -> list[float]:
    """How much each element's letters stand out from what is behind them: 1 not at all, 21 black on white."""
    return spans.evaluate_all(
        """all => all.map(one => {
          const bright = text => {
            const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
              .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const style = getComputedStyle(one), both = [bright(style.color), bright(style.backgroundColor)];
          return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
        })"""
    )


class Open(Protocol):
    """The fixture `show`: a page with these panels, in a window."""

    def __call__(self, *panels: Panel, **size: int) -> AbstractContextManager[Page]: ...


def choose(there: Page, label: str, value: str) -> None:
    there.get_by_label(label, exact=True).select_option(value)
    settle(there)


def read_after_click(button: Locator) -> str:
    """What a button reads once a click has changed it, be it for a moment alone."""
    one = button.element_handle()
    one.evaluate(
        "one => { one.said = new Promise(done =>"
        " new MutationObserver(() => done(one.textContent)).observe(one, { childList: true })) }"
    )
    one.click()
    return one.evaluate("one => one.said")


def as_table(there: Page) -> None:
    there.get_by_text("as a table").first.click()
    there.locator("details table").first.wait_for()


def reading(there: Page) -> str:
    return there.locator(".reading").first.inner_text()


def darkness(one: tuple[int, int, int]) -> int:
    return 3 * 255 - sum(one)


def share_of(canvas: Locator, wanted: tuple[int, int, int], near: int = 40) -> float:
    """The part of a canvas that has about this colour."""
    return float((np.abs(pixels(canvas)[:, :3] - np.array(wanted)).max(1) < near).mean())
