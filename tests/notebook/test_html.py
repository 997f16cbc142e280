"""Pieces of HTML for notebooks, and who gets them."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from glassformer.families.predict import Prediction
from glassformer.notebook.display import in_notebook, progress_bar
from glassformer.notebook.html import bar, facts, shares, table
from glassformer.tasks.base import Evaluation


def test_values_are_escaped_and_rounded() -> None:
    html = table(("<a>", "n"), [["<script>", 1234567], ["x", 0.123456], ["y", None]])
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert all(cell in html for cell in (">1,234,567</td>", ">0.1235</td>", "></td>"))
    assert "&lt;b&gt;" in bar(0.5, "<b>")
    assert "&lt;b&gt;" in facts({"<b>": "<b>"}, "<b>")
    assert "&lt;b&gt;" in shares([("<b>", 0.25)])


def test_a_bar_stays_within_its_box() -> None:
    assert "width: 50.0%" in bar(0.5, "")
    assert "width: 100.0%" in bar(1.7, "")
    assert "width: 0.0%" in bar(-1, "")
    assert "width: 0%" in bar(None, "")


def test_results_name_what_they_hold() -> None:
    html = Evaluation({"accuracy": 0.75}, "accuracy", False, "three of four",
                      details={"per_class": {"good": {"precision": 0.5, "texts": 8}}})._repr_html_()  # fmt: skip
    assert all(word in html for word in ("accuracy", "0.75", "three of four", "good", "precision", "0.5", ">8<"))
    many = Prediction("a", "c3", {f"c{number}": number / 4950 for number in range(100)})._repr_html_()
    assert ">c99<" in many
    assert ">c3<" in many
    assert ">c50<" not in many
    assert ">2.5<" in Prediction("a", value=2.5)._repr_html_()


def test_only_a_kernel_makes_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    def shell(found: object) -> ModuleType:
        module = ModuleType("IPython")
        module.get_ipython = lambda: found  # type: ignore[attr-defined]
        return module

    for found, expected in ((None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=object()), True)):
        monkeypatch.setitem(sys.modules, "IPython", shell(found))
        assert in_notebook() is expected
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
    with progress_bar():
        assert "IPython" not in sys.modules


@pytest.mark.slow
def test_a_program_needs_no_ipython() -> None:
    program = "import sys, glassformer as gf; gf.train, gf.evaluate, gf.look; print('IPython' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
