"""A view of one's own, registered in one file, is one of a run's views; which views there are depends on no import."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.views import VIEWS
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import ClassificationFamily
from glassformer.families.load import load
from glassformer.inspection.views import registry
from glassformer.inspection.views.attribution import explained_output
from glassformer.inspection.views.learning import output_panels
from glassformer.inspection.views.registry import LookRequest
from glassformer.inspection.views.two_texts import output_of
from glassformer.rendering.panels import Words
from glassformer.rendering.view import View
from helpers.look_runs import train_kind


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(train_kind("lstm-writer", tmp_path_factory.mktemp("run"))[0], "cpu")


@pytest.fixture
def toy() -> Iterator[None]:
    @gf.register_view("toy", shows="how long a text is", options=("word",), quick=True)
    def toy(request: LookRequest) -> View:
        return View("Toy", [Words(text=f"{len(request.example.tokens)} tokens, {request.word}")])

    yield
    del registry._REGISTERED["toy"]


@pytest.mark.usefixtures("toy")
def test_a_toy_view(writer: Loaded) -> None:
    view = gf.look(writer, "abc", view="toy", word="b")
    assert isinstance(view, View)
    (panel,) = view.panels
    assert isinstance(panel, Words)
    assert panel.text == "4 tokens, b"
    assert "lstm" in view.about
    assert registry.views_of(writer)[-1] == "toy"
    assert gf.look(writer, "abc", view="all").to_dict()["views"][-1]["title"] == "Toy"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"view": "attention"}, "it has logit-lens, .*, toy"),
        ({"view": "nothing like it"}, "one of: .*, toy, all"),
        ({"view": "next", "word": "x"}, "it is for word, toy"),
    ],
)
def test_errors_name_it(options: dict[str, str], words: str, writer: Loaded) -> None:
    with pytest.raises(Misuse, match=words):
        gf.look(writer, "abc", **options)


def test_a_view_that_not_every_run_has(writer: Loaded) -> None:
    @gf.register_view("toy", shows="nothing", needs=lambda loaded: loaded.family.has_decoder)
    def toy(request: LookRequest) -> View:
        return View("Toy", [])

    try:
        with pytest.raises(Misuse, match="has no toy to look at"):
            gf.look(writer, "abc", view="toy")
    finally:
        del registry._REGISTERED["toy"]


@pytest.mark.parametrize("generic", [explained_output, output_of, output_panels])
def test_a_family_of_ones_own_is_looked_at_as_its_base_is(generic: Any) -> None:
    """Or, where it has none of ours for a base, as any family is."""

    class Own(ClassificationFamily):
        pass

    assert generic.dispatch(Own) is generic.dispatch(ClassificationFamily)
    assert generic.dispatch(Family) is generic.dispatch(object)


def test_what_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="a view attention already"):
        gf.register_view("attention", shows="something else")
    with pytest.raises(ValueError, match="needs shows="):
        gf.register_view("toy")
    with pytest.raises(ValueError, match="look has no option colour"):
        gf.register_view("toy", shows="colours", options=("colour",))(lambda request: View("Toy", []))


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("", {}, "a view's name is letters, digits, - and _, not ''"),
        ("a/b", {}, "a view's name is letters, digits, - and _, not 'a/b'"),
        (None, {}, "a view's name is letters, digits, - and _, not None"),
        ("all", {}, "there is a view all already: choose another name"),
        ("other", {"needed": 1}, "register_view('other'): unknown fact 'needed'; did you mean needs?"),
        ("other", {"make": 1}, "register_view('other'): unknown fact 'make'"),
    ],
)
@pytest.mark.usefixtures("toy")
def test_names_and_facts_that_are_refused(name: Any, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        gf.register_view(name, shows="something", **facts)
    assert "\n" not in str(caught.value)
    assert name not in registry._REGISTERED


@pytest.mark.usefixtures("toy")
def test_a_name_is_taken_once_but_the_same_view_may_come_again() -> None:
    def other(request: LookRequest) -> View:
        return View("Other", [])

    with pytest.raises(ValueError, match="there is a view toy already: choose another name"):
        gf.register_view("toy", shows="something else")(other)
    again = registry._REGISTERED["toy"].make
    assert gf.register_view("toy", shows="anew")(again) is again
    assert registry._REGISTERED["toy"].shows == "anew"


@pytest.mark.parametrize("part", ["make", "needs"])
def test_an_error_in_a_view_of_ones_own_is_one_line(part: str, writer: Loaded) -> None:
    def broken(argument: Any) -> Any:
        raise ValueError("nothing\nhere")

    def makes(request: LookRequest) -> View:
        return View("Toy", [])

    facts = {"needs": broken} if part == "needs" else {}
    gf.register_view("toy", shows="nothing", quick=True, **facts)(broken if part == "make" else makes)
    try:
        for view in ("toy", "all"):
            with pytest.raises(GlassformerError, match=r"^the view toy failed: ValueError: nothing here$") as caught:
                gf.look(writer, "abc", view=view)
            assert isinstance(caught.value.__cause__, ValueError)
    finally:
        del registry._REGISTERED["toy"]


@pytest.mark.slow
def test_all_views_are_there_in_a_fresh_process() -> None:
    code = "from glassformer.inspection.views.registry import all_views; print(*all_views())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(VIEWS)
