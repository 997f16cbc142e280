"""The page as a file: complete in itself, whatever stands in a token."""

import json
import re
import tomllib
from base64 import b64decode
from collections.abc import Iterator
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import rendering
from glassformer.rendering.panels import (
    KEPT_PER_ROW,
    MAX_WEIGHTS,
    Frames,
    Grid,
    Heads,
    Line,
    Lines,
    Panel,
    Table,
    Tokens,
    Words,
)
from glassformer.rendering.view import SCRIPTS, Renderable, View, Views

VIEWER = Path(rendering.__file__).parent / "viewer"
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3, 5)).astype(np.float32)
TOKENS = ["the", "</script><b>", "<!--", "שלום", "👩‍🚀"]


class Parts(HTMLParser):
    """The elements of a page, and the text within each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.all:
            self.all[-1][2].append(data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, "".join(text)) for name, attributes, text in self.all if name == tag]


def data_of(text: str) -> Any:
    (data,) = [inner for attributes, inner in Parts(text).named("script") if "id" in attributes]
    return json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def kinds(panel: type[Panel] = Panel) -> Iterator[type[Panel]]:
    for one in panel.__subclasses__():
        if one.__module__ == "glassformer.rendering.panels":
            yield from [one] if "kind" in vars(one) else kinds(one)


def test_a_page_holds_its_views_and_nothing_is_lost() -> None:
    views = [
        View("One", [Heads(weights=WEIGHTS, rows=TOKENS, columns=TOKENS)], note="a note"),
        View("Two", [Words(text="hello")]),
    ]
    data = data_of(Views("Both", views).page())
    assert data["title"] == "Both"
    assert [view["title"] for view in data["views"]] == ["One", "Two"]
    assert data["views"][0]["note"] == "a note"
    assert data["views"][0]["panels"] == [views[0].panels[0].packed()]
    assert data["views"][1]["panels"][0]["kind"] == "words"


def test_nothing_in_a_token_or_a_title_can_end_a_script() -> None:
    text = Views("</title><script>alert(1)</script>", [View(TOKENS[1], [Words(text="<!-- <script>")])]).page()
    parts = Parts(text)
    assert len(parts.named("script")) == 2
    assert len(parts.named("title")) == 1
    assert parts.named("title")[0][1].strip() == "</title><script>alert(1)</script>"
    assert data_of(text)["views"][0]["title"] == TOKENS[1]


def test_a_page_needs_nothing_but_itself() -> None:
    parts = Parts(View("One", []).page())
    meta = {attributes.get("name") or attributes.get("http-equiv"): attributes for attributes, _ in parts.named("meta")}
    rules = meta["Content-Security-Policy"]["content"]
    assert rules is not None
    assert rules.split("; ") == [
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
    ]
    assert "width=device-width" in str(meta["viewport"]["content"])
    assert parts.named("html")[0][0]["lang"] == "en"
    links = [value for _, attributes, _ in parts.all for name, value in attributes.items() if name in ("src", "href")]
    assert links == ["data:,"]
    assert "url(" not in parts.named("style")[0][1]
    assert "import" not in re.sub(r"//.*", "", parts.named("script")[1][1])


def test_numbers_that_are_none_become_null() -> None:
    nothing = float("nan")
    lines = Lines(series=[Line(name="a", x=[1, 2, 3], y=[nothing, float("inf"), 0.5])])
    table = Table(columns=["a"], rows=[[np.float32(0.25)], [np.int64(7)], [None], [nothing]])  # type: ignore[list-item]
    grid = Grid(values=np.array([[-np.inf, 1.0]]), rows=["r"], columns=["a", "b"])
    drawn = data_of(View("", [lines, table, grid]).page())["views"][0]["panels"]
    assert drawn[0]["series"][0]["y"] == [None, None, 0.5]
    assert drawn[1]["rows"] == [[0.25], [7], [None], [None]]
    assert drawn[2]["values"] == grid.packed()["values"]
    assert lines.to_dict()["series"][0]["y"] == [None, None, 0.5]
    assert table.to_dict()["rows"] == [[0.25], [7], [None], [None]]
    assert grid.to_dict()["values"] == [[None, 1.0]]


def test_what_the_page_holds_of_attention_is_bounded_for_all_moments_together() -> None:
    names = [str(place) for place in range(128)]
    weights = np.random.default_rng(1).dirichlet(np.ones(128), (4, 4, 128)).astype(np.float32)
    heads = Heads(weights=weights, rows=names, columns=names)
    assert weights.size < MAX_WEIGHTS
    assert "kept" not in heads.packed()["weights"]

    def held(moments: int) -> list[dict[str, Any]]:
        frames: list[list[Panel]] = [[Words(text="a word"), heads]] * moments
        packed = Frames(name="updates", labels=names[:moments], frames=frames).packed()
        return [frame[1]["weights"] for frame in packed["frames"]]

    few = held(MAX_WEIGHTS // weights.size)
    assert all(one == heads.packed()["weights"] for one in few)
    many = held(26)
    assert all(one["kept"] == KEPT_PER_ROW for one in many)
    assert sum(len(b64decode(one["u8"])) for one in many) <= MAX_WEIGHTS


def test_a_result_that_has_a_view_is_saved_and_shown_as_that(tmp_path: Path) -> None:
    class Sum(Renderable):
        def to_dict(self) -> dict[str, Any]:
            return {"sum": 5}

        def view(self) -> View:
            return View("2 + 3 < 6", [Words(text="five")])

    result = Sum()
    result.save(tmp_path / "sum.json")
    assert json.loads((tmp_path / "sum.json").read_text()) == {"sum": 5}
    result.save(tmp_path / "sum.html")
    assert (tmp_path / "sum.html").read_text() == result.view().page()
    assert result._repr_html_() == result.view()._repr_html_()
    assert 'title="2 + 3 &lt; 6"' in result._repr_html_()


def test_half_a_letter_can_be_written_to_a_file(tmp_path: Path) -> None:
    half = "a\ud83d"
    view = View(half, [Tokens(tokens=[half], values=np.ones((1, 1)))])
    view.save(tmp_path / "page.html")
    assert data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["views"][0]["panels"][0]["tokens"] == [half]


def test_every_kind_of_panel_has_a_drawer_and_every_drawer_a_kind() -> None:
    script = "".join((VIEWER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    assert sorted(re.findall(r"^drawers\.(\w+) =", script, re.M)) == sorted(one.kind for one in kinds())


def test_every_file_of_the_viewer_is_used_and_packed() -> None:
    files = sorted(path.name for path in VIEWER.iterdir())
    assert files == sorted(["page.css", "page.html", *(f"{name}.js" for name in SCRIPTS)])
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["glassformer"]
    assert all(any(fnmatch(f"rendering/viewer/{name}", pattern) for pattern in patterns) for name in files)
