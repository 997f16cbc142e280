"""A real notebook, run by a real kernel: bars move in place and end in a line, results and views show themselves."""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser

import glassformer
from helpers.tables import opinions, write_table

pytestmark = pytest.mark.slow  # a real kernel trains, compares and tunes

SOURCE = Path(glassformer.__file__).parent.parent
CELLS = {
    "begin": """
import glassformer as gf
from glassformer.notebook import display
display.MIN_INTERVAL = display.DELAY = 0  # every picture is drawn
""",
    "train": 'trained = gf.train("two.csv", model="bag", steps=4, out="run")',
    "trained": "trained",
    "evaluate": "gf.evaluate(trained)",
    "predict": 'model = gf.load(trained, "cpu")\nmodel.predict("the soup was <b>good</b>")',
    "many": 'found = model.predict(["a lovely soup", "a dull film"] * 1500)',
    "embed": 'vectors = model.embed(["a lovely soup"] * 9)',
    "look": 'gf.look(trained, "the soup was good")',
    "compare": 'gf.compare("two.csv", models="bag", seeds=1, steps=2, references=False, out="compared")',
    "tune": 'gf.tune("two.csv", model="bag", trials=2, steps=2, out="tuned")',
    "heard": 'gf.train("two.csv", model="bag", steps=1, out="heard", listen=lambda event: None).steps',
    "failed": """
try:
    gf.train("two.csv", model="bag", steps=2, out="run")
except gf.GlassformerError:
    pass
""",
}
Seen = dict[str, list[dict[str, Any]]]


class Watched(NotebookClient):
    """Keeps every message about outputs, by the cell it came from."""

    seen: Seen

    def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
        if "data" in message["content"]:
            self.seen.setdefault(list(CELLS)[cell_index], []).append(
                {"type": message["msg_type"], **message["content"]["data"]}
            )
        return super().process_message(message, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Seen]:
    """The notebook with its outputs, and all that was shown on the way."""
    folder = tmp_path_factory.mktemp("notebook")
    write_table(folder / "two.csv", opinions(60))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.strip()) for code in CELLS.values()])
    client = Watched(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.seen = {}
    client.execute(env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"})
    return notebook, client.seen


def outputs(executed: tuple[Any, Seen], cell: str) -> list[Any]:
    """What stays in the notebook."""
    found: list[Any] = executed[0].cells[list(CELLS).index(cell)].outputs
    return found


def test_a_training_is_a_bar_and_then_a_line(executed: tuple[Any, Seen]) -> None:
    seen = executed[1]["train"]
    assert [one["type"] for one in seen] == ["display_data", *["update_display_data"] * (len(seen) - 1)]
    bars = [one["text/html"] for one in seen[:-1]]
    assert all("width: 15em" in bar for bar in bars)
    assert sum("step " in bar for bar in bars) >= 4
    assert "width: 75.0%" in "".join(bars)  # the last of four steps began there
    (left,) = outputs(executed, "train")
    assert "width: 15em" not in left.data["text/html"]
    assert left.data["text/plain"].startswith("run: bag, ")
    assert "4 updates in " in left.data["text/plain"]


@pytest.mark.parametrize(("cell", "words"), [
    ("trained", ("4 updates", "<th", "validation", "accuracy")),
    ("evaluate", ("accuracy", "precision", "recall")),
    ("predict", ("the soup was &lt;b&gt;good&lt;/b&gt;", "%")),
    ("look", ("<iframe", "glassformerHeight")),
    ("compare", ("<iframe",)),
    ("tune", ("<iframe",)),
])  # fmt: skip
def test_results_show_themselves(cell: str, words: tuple[str, ...], executed: tuple[Any, Seen]) -> None:
    last = outputs(executed, cell)[-1]
    assert last.output_type == "execute_result"
    assert all(word in last.data["text/html"] for word in words)


def test_long_work_is_a_bar_and_then_a_line(executed: tuple[Any, Seen]) -> None:
    for cell, end in (("many", "3,000 examples in "), ("embed", "9 texts in ")):
        assert "width: 100.0%" in executed[1][cell][-2]["text/html"]
        (left,) = outputs(executed, cell)
        assert left.data["text/plain"].startswith(end)
    of_compare, of_tune, final = (outputs(executed, "compare")[0], *outputs(executed, "tune")[:2])
    assert of_compare.data["text/plain"].startswith("2 jobs in ")
    assert of_tune.data["text/plain"].startswith("2 trials in ")
    assert final.data["text/plain"].startswith("tuned/best: bag")


def test_who_listens_gets_no_bar_and_a_refusal_leaves_none(executed: tuple[Any, Seen]) -> None:
    assert [one["type"] for one in executed[1]["heard"]] == ["execute_result"]
    assert "failed" not in executed[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_view_is_as_high_as_its_page_and_as_dark_as_the_notebook(
    theme: str, executed: tuple[Any, Seen], browser: Browser, tmp_path: Path
) -> None:
    page, _ = HTMLExporter(theme=theme).from_notebook_node(executed[0])
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
    with browser.new_context(color_scheme="null", viewport={"width": 1100, "height": 900}) as context:
        context.set_offline(True)
        there = context.new_page()
        there.route("http*://**", lambda route: route.abort())
        there.goto((tmp_path / "notebook.html").as_uri())
        frame = there.locator("iframe.glassformer").first
        frame.scroll_into_view_if_needed()
        inside = there.frame_locator("iframe.glassformer").first
        inside.locator(".panel").first.wait_for()
        there.wait_for_function("document.querySelector('iframe.glassformer').style.colorScheme !== ''")
        assert inside.locator(":root").evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches") == (
            theme == "dark"
        )
        there.wait_for_function("document.querySelector('iframe.glassformer').style.height !== '640px'")
        inside.locator(":root").evaluate("() => new Promise(requestAnimationFrame)")
        height = inside.locator("body").evaluate("body => body.offsetHeight")
        assert frame.evaluate("frame => parseFloat(frame.style.height)") == pytest.approx(height, abs=1)
