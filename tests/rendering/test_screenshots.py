"""Screenshots of fixed pages, beside small pictures of how they looked when somebody looked at them last.

After a change that is meant to be seen: look at the page, then make the pictures anew and commit them:

    GLASSFORMER_RENEW=1 .venv/bin/pytest tests/rendering/test_screenshots.py
"""

import base64
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser

from glassformer.rendering.panels import Grid, Guesses, Heads, Line, Lines, Panel, Patches, Points, Tokens
from glassformer.rendering.view import View
from helpers.browser import opened, settle

PICTURES = Path(__file__).parent / "screenshots"
WIDTH = 64
"""Pixels across a stored picture: no letter can be read, but every panel, colour and mark is there."""
TOLERANCE = 0.13
"""Of what there is to see on a page, so much may differ: other letters stay below it, another page does not."""
TOKENS = ["<s>", "the", "small", "cat", "sat", "on", "the", "mat"]


def looking(*shape: int, turn: float = 0.0) -> NDArray[np.float32]:
    """Attention by a formula, so that it is the same everywhere: rows of 1, another pattern in every head."""
    layer, head, row, column = np.indices(shape)
    scores = 3 * np.cos(row * (head + 1) / 2 - column * (layer + 1) / 2 + turn) + np.where(column == row - head, 3, 0)
    out = np.exp(np.where(column > row, -np.inf, scores))
    return np.asarray(out / out.sum(-1, keepdims=True), np.float32)


def attention(turn: float = 0.0, **how: Any) -> Heads:
    weights = looking(2, 3, 8, 8, turn=turn)
    return Heads(
        title="Attention",
        weights=weights,
        rows=TOKENS,
        columns=TOKENS,
        **{"layer": 1, "head": 2, "causal": True, **how},
    )


def guesses() -> Guesses:
    names = [["mat", "cat"], ["cat", "sat"], ["the", "on"], ["sat", "on"]]
    return Guesses(
        title="Guesses",
        tokens=TOKENS[:6],
        layers=["layer 0", "layer 1", "layer 2"],
        guesses=[[names[(layer + at) % 4] for at in range(6)] for layer in range(3)],
        probabilities=np.array([[[(1 + layer + at) / 9, 0.1] for at in range(6)] for layer in range(3)]),
        answers=TOKENS[1:7],
    )


def curves() -> Lines:
    x = np.arange(1, 41)
    train, valid = 4 * np.exp(-x / 12) + 1, 4 * np.exp(-x / 14) + 1.3
    band = {"low": (valid - 0.3).tolist(), "high": (valid + 0.3).tolist()}
    series = [Line(name="training", x=x.tolist(), y=train.tolist())]
    series += [Line(name="validation", x=x[::4].tolist(), y=valid[::4].tolist(), dots=True)]
    series += [Line(name="spread", x=x.tolist(), y=valid.tolist(), **band, faint=True)]
    return Lines(title="Loss", series=series, x_name="updates", y_name="nats")


def points() -> Points:
    angle = np.arange(12) * np.pi / 6
    return Points(
        title="Words",
        points=np.stack([np.cos(angle) * (1 + angle), np.sin(angle)], 1),
        labels=[f"word {i}" for i in range(12)],
        groups=["one", "two", "three"] * 4,
    )


def image() -> NDArray[np.uint8]:
    down, across = np.mgrid[:16, :16]
    ring = np.abs(np.hypot(down - 7.5, across - 7.5) - 5) < 1.5
    return np.where(ring[..., None], [250, 240, 210], [220, 228, 236]).astype(np.uint8)


def shaded() -> Tokens:
    values = np.stack([np.sin(np.arange(8)), np.cos(np.arange(8))])
    return Tokens(title="Decided", tokens=TOKENS, values=values, names=["gradient", "left out"], signed=True)


def numbers() -> Grid:
    values = 2 * np.sin(np.arange(25).reshape(5, 5))
    names = TOKENS[:5]
    # No formula: its height depends on the math font of the browser.
    return Grid(title="Scores", values=values, rows=names, columns=names, signed=True, numbers=True)


@dataclass(frozen=True)
class Shot:
    """What is on a page, and where it is looked at."""

    panels: list[Panel]
    width: int = 800
    scheme: Literal["light", "dark"] = "light"
    changes: Sequence[tuple[str, str]] = ()
    """In the page's own text: what is replaced, and by what."""
    letters: str = "DejaVuSans"


IMAGE = Patches(title="Patches", pixels=image(), weights=looking(2, 2, 16, 16), grid=(4, 4), layer=1, head=1)
SHOTS = {
    "heat": Shot([attention()]),
    "lines": Shot([attention(mode="lines", head=None)]),
    "all": Shot([attention(mode="all")]),
    "numbers": Shot([numbers()]),
    "guesses": Shot([guesses()]),
    "curves": Shot([curves()]),
    "points": Shot([points()]),
    "patches": Shot([IMAGE]),
    "tokens": Shot([shaded()]),
    "dark": Shot([attention()], scheme="dark"),
    "phone": Shot([numbers(), attention(mode="lines"), shaded(), curves()], width=390),
}


def changed(name: str, **fields: Any) -> Shot:
    """The same page, but for some fields of its only panel."""
    [panel] = SHOTS[name].panels
    return replace(SHOTS[name], panels=[replace(panel, **fields)])


def in_other_words(name: str, *changes: tuple[str, str]) -> Shot:
    return replace(SHOTS[name], changes=changes)


@cache
def font(letters: str) -> str:
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{letters}.ttf"
    return base64.b64encode(path.read_bytes()).decode()


def written(shot: Shot) -> str:
    """The page, with letters that it brings along: those of the machine are as wide as they like."""
    text = View("A view", shot.panels).page()
    face = f"@font-face {{ font-family: Own; src: url(data:font/ttf;base64,{font(shot.letters)}) }}"
    own = [
        ("img-src data:", "img-src data:; font-src data:"),
        ("<style>", f"<style>{face}"),
        ("\nstart();", "\ndocument.fonts.load('12px Own').then(start);"),
    ]
    for old, new in [*own, *shot.changes]:
        assert old in text, f"the page does not say {old!r} any more"
        text = text.replace(old, new)
    return re.sub("system-ui, -apple-system|ui-monospace", "Own", text)


def shoot(browser: Browser, shot: Shot, folder: Path) -> Image.Image:
    with opened(browser, written(shot), folder, width=shot.width) as there:
        there.locator(".panel").first.wait_for()
        there.emulate_media(color_scheme=shot.scheme)
        settle(there)
        whole = there.screenshot(full_page=True, path=folder / "screenshot.png")
    return Image.open(io.BytesIO(whole)).convert("RGB")


def apart(name: str, picture: Image.Image) -> float:
    """How much differs from the stored picture, as a part of what there is to see on it: 0 nothing."""
    stored = Image.open(PICTURES / f"{name}.png").convert("RGB")
    before, now = (np.asarray(one.resize(stored.size, Image.Resampling.BOX), float) for one in (stored, picture))
    empty = np.median(before.reshape(-1, 3), 0)
    return float(np.abs(now - before).mean() / np.abs(before - empty).mean())


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", SHOTS)
def test_a_page_looks_as_it_did(browser: Browser, tmp_path: Path, name: str) -> None:
    picture = shoot(browser, SHOTS[name], tmp_path)
    if os.environ.get("GLASSFORMER_RENEW") == "1":
        height = round(WIDTH * picture.height / picture.width)
        picture.resize((WIDTH, height), Image.Resampling.BOX).save(PICTURES / f"{name}.png", optimize=True)
    seen = apart(name, picture)
    assert seen < TOLERANCE, f"{seen:.2f} of {name} looks different: see {tmp_path}/screenshot.png"


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", SHOTS)
def test_other_letters_may_be_used(browser: Browser, tmp_path: Path, name: str) -> None:
    other = shoot(browser, replace(SHOTS[name], letters="DejaVuSerif"), tmp_path)
    assert 0 < apart(name, other) < TOLERANCE


TURNED = looking(2, 3, 8, 8, turn=2.0)
OTHERS = {
    "heat: other weights": changed("heat", weights=TURNED),
    "heat: another head": changed("heat", head=0),
    "lines: other weights": changed("lines", weights=TURNED),
    "lines: two heads change colours": in_other_words(
        "lines", ("--c0: #0072b2; --c1: #d55e00", "--c0: #d55e00; --c1: #0072b2")
    ),
    "all: other weights": changed("all", weights=TURNED),
    "numbers: turned": changed("numbers", values=numbers().values.T),
    "numbers: blue for orange": changed("numbers", values=-numbers().values),
    "guesses: other probabilities": changed("guesses", probabilities=guesses().probabilities[:, ::-1]),
    "curves: one is missing": changed("curves", series=curves().series[:1]),
    "points: mirrored": changed("points", points=-points().points),
    "patches: other weights": changed("patches", weights=looking(2, 2, 16, 16)[..., ::-1]),
    "tokens: blue for orange": changed("tokens", values=-shaded().values),
    "dark: other weights": changed("dark", weights=TURNED),
    "dark: light": replace(SHOTS["dark"], scheme="light"),
    "heat: shifted": in_other_words("heat", (".panel {", ".panel { position: relative; left: 40px;")),
    "heat: another colour": in_other_words("heat", ("#00507f", "#7f5000"), ("#3a8cc4", "#c48c3a")),
    **{
        f"phone: without panel {at}": replace(
            SHOTS["phone"], panels=[one for i, one in enumerate(SHOTS["phone"].panels) if i != at]
        )
        for at in range(4)
    },
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("what", OTHERS)
def test_another_page_does_not_pass(browser: Browser, tmp_path: Path, what: str) -> None:
    other = apart(what.split(":")[0], shoot(browser, OTHERS[what], tmp_path))
    assert other > TOLERANCE


def test_the_pictures_are_small_and_none_is_left_over() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == set(SHOTS)
    assert all(path.stat().st_size < 12_000 for path in PICTURES.iterdir())
