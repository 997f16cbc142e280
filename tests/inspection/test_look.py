"""One verb for every view of every run: what a run has is made and saved; what it has not is said in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer as gf
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.views import ALL, VIEWS
from glassformer.families.base import Loaded
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.load import load
from glassformer.families.translation import LoadedTranslator
from glassformer.inspection.views.registry import all_views, views_of
from glassformer.rendering.panels import Frames, Grid, Guesses, Heads, Lines, Panel, Patches, Table, Tokens
from glassformer.rendering.view import View, Views
from glassformer.verbs.look import look
from helpers.look_runs import RUNS, train_kind

HEADS = {"attention", "roles", "links", "head-ablation"}
WORDS = {"word", "nearest"}
NEXT = {"logit-lens", "next", "tree", "pairs", "patching"}
HAS: dict[str, set[str]] = {
    "writer": {*HEADS, *WORDS, *NEXT, "positions", "learning"},
    "pairs-of-bytes": {*HEADS, *WORDS, *NEXT, "positions", "merges"},
    "lstm-writer": {*WORDS, *NEXT, "states"},
    "cnn-writer": {*WORDS, *NEXT, "states"},
    "bag": {"nearest", "pooling"},
    "classifier": {*HEADS, *WORDS, "positions", "pooling", "patching"},
    "gru-classifier": {*WORDS, "states", "pooling", "patching"},
    "translator": {*HEADS, *WORDS, "positions", "alignment", "logit-lens", "next", "tree", "learning"},
    "lstm-translator": {
        *WORDS,
        "attention",
        "links",
        "alignment",
        "head-ablation",
        "logit-lens",
        "next",
        "tree",
        "states",
    },
    "bottleneck": {*WORDS, "logit-lens", "next", "tree", "states"},
    "patches": {*HEADS, "patches", "pooling", "positions"} - {"links"},
    "cnn-images": {"pooling"},
    "pixels": {"pooling"},
    "table": {"pooling"},
    "columns": {*HEADS, "pooling"} - {"links"},
    "regressor": {"pooling"},
}
TRANSLATE = ("translator", "lstm-translator", "bottleneck")
ALWAYS = {"attribution", "step", "versus", "report", "diagram"}
NEEDS_MORE = ("word", "links", "versus", "step", "nearest", "patching")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Loaded, str]]:
    """Trained when first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    class Once(dict[str, tuple[Loaded, str]]):
        def __missing__(self, name: str) -> tuple[Loaded, str]:
            (folder / name).mkdir()
            run, example = train_kind(name, folder / name)
            self[name] = load(run), example
            return self[name]

    return Once()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", RUNS)
def test_which_views_a_run_has(name: str, trained: dict[str, tuple[Loaded, str]]) -> None:
    assert set(views_of(trained[name][0])) == HAS[name] | ALWAYS | {"numbers"}


def test_every_view_of_the_help_registers_itself() -> None:
    assert list(all_views()) == list(VIEWS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", RUNS)
def test_all_at_once(name: str, trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    loaded, example = trained[name]
    seen = look(loaded, example, view=ALL)
    assert isinstance(seen, Views)
    assert len(seen.views) == len([view for view in views_of(loaded) if all_views()[view].quick])
    seen.save(tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text()
    assert all(json.dumps(view.title)[1:-1].split("<")[0] in text for view in seen.views)
    with pytest.raises(Misuse, match="a picture holds one view"):
        seen.save(tmp_path / "all.png")


@pytest.mark.sample(5)
@pytest.mark.parametrize("view", [view for view in VIEWS if view not in NEEDS_MORE])
@pytest.mark.parametrize("name", RUNS)
def test_views_of_one_example(name: str, view: str, trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    loaded, example = trained[name]
    if view not in views_of(loaded):
        with pytest.raises(Misuse, match=r"it has|--keep-checkpoints"):
            look(loaded, example, view=view)
        return
    texts = [example] if all_views()[view].texts != "none" else []
    seen = look(loaded, *texts, view=view, translation="edcba" if name in TRANSLATE and view == "numbers" else None)
    assert isinstance(seen, View)
    assert seen.panels
    seen.save(tmp_path / "view.html")
    seen.save(tmp_path / "view.json")
    assert json.loads((tmp_path / "view.json").read_text())["title"] == seen.title
    if view not in ("report", "numbers", "merges", "learning"):
        seen.save(tmp_path / "view.png")
        assert (tmp_path / "view.png").read_bytes().startswith(b"\x89PNG")


def panels(seen: View | Views, kind: type[Panel]) -> list[Any]:
    assert isinstance(seen, View)
    return [panel for panel in seen.panels if isinstance(panel, kind)]


def test_attention_is_the_models_own(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    (heads,) = panels(look(loaded, example, layer=1, head=0, mode="lines"), Heads)
    assert heads.weights.shape == (2, 2, 8, 8)
    assert (heads.layer, heads.head, heads.mode) == (1, 0, "lines")
    assert heads.rows == heads.columns == ["<start>", *example]
    assert (heads.weights[:, :, np.triu_indices(8, 1)[0], np.triu_indices(8, 1)[1]] == 0).all()
    assert heads.causal


def test_attention_opens_on_the_clearest_head(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    (heads,) = panels(look(loaded, example, view="attention"), Heads)
    rows = heads.weights[:, :, 1:].astype(float)
    entropy = np.where(rows > 0, -rows * np.log(np.where(rows > 0, rows, 1)), 0).sum(-1)
    clear = ((1 - entropy / np.log(np.arange(2, 9))) * (1 - rows[..., 0])).mean(-1)
    assert (heads.layer, heads.head) == np.unravel_index(clear.argmax(), clear.shape)
    (of_layer,) = panels(look(loaded, example, view="attention", layer=0), Heads)
    assert (of_layer.layer, of_layer.head) == (0, clear[0].argmax())
    (everything,) = panels(look(loaded, example, view="attention", mode="all"), Heads)
    assert (everything.layer, everything.head) == (None, None)


def test_a_translators_stacks(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["translator"]
    source, target, cross = panels(look(loaded, example, view="attention", translation="edcba"), Heads)
    assert source.rows == [*example, "<end>"]
    assert target.rows == ["<start>", *"edcba"]
    assert cross.rows == [*"edcba", "<end>"]
    assert cross.columns == [*example, "<end>"]
    assert [source.causal, target.causal, cross.causal] == [False, True, False]
    (aligned,) = panels(look(loaded, example, view="alignment", translation="edcba"), Heads)
    assert np.array_equal(aligned.weights, cross.weights)


def test_patches_of_an_image(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["patches"]
    (patches,) = panels(look(loaded, example, view="patches"), Patches)
    assert patches.grid == (3, 2)
    assert patches.weights.shape[2:] == (6, 6)
    assert patches.pixels.shape == (12, 8, 1)


def test_the_lens_of_a_translator_has_a_row_for_each_token_written(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["lstm-translator"]
    (guesses,) = panels(look(loaded, example, view="logit-lens", translation="ab"), Guesses)
    assert guesses.tokens == ["<start>", "a", "b"]
    assert guesses.answers == ["a", "b", "<end>"]


@pytest.mark.parametrize("name", ["writer", "classifier", "translator", "lstm-translator", "table", "regressor", "bag"])
def test_a_training_step(name: str, trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained[name]
    more = {"classifier": "positive", "bag": "positive", "table": "L", "regressor": "-150"}
    seen = look(loaded, example, view="step", answer=more.get(name), translation="edcba" if name in TRANSLATE else None)
    assert isinstance(seen, View)
    assert seen.panels


def test_a_word_in_two_texts(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, _ = trained["classifier"]
    seen = look(loaded, "the soup was good", "the soup was not good", word="soup")
    assert panels(seen, Frames)[0].labels[0] == "embedding"
    with pytest.raises(Misuse, match="has no word to look at; it has"):
        look(trained["bag"][0], "the soup", "a soup", word="soup")
    with pytest.raises(Misuse, match="soup"):
        look(loaded, "the soup", word="soup")
    twice = look(loaded, "the soup was a good soup", word="soup")
    assert len(panels(twice, Frames)[0].frames) > 1
    with pytest.raises(Misuse, match="meal"):
        look(loaded, "the soup was good", "the meal was good", word="meal")


def test_nearest_words(trained: dict[str, tuple[Loaded, str]]) -> None:
    seen = look(trained["classifier"][0], "good", "bad", view="nearest")
    assert len(panels(seen, Table)) == 2
    with pytest.raises(Misuse, match="needs words"):
        look(trained["classifier"][0], view="nearest")


def test_two_texts_in_two_runs(trained: dict[str, tuple[Loaded, str]]) -> None:
    first, second = trained["classifier"][0], trained["bag"][0]
    texts = "the food was good, not bad", "the food was bad, not good"
    alone = look(second, texts[0], versus=texts[1])
    assert "cannot tell them apart" in alone.note
    both = look(first, texts[0], versus=texts[1], second_run=second)
    assert isinstance(both, View)
    assert str(second.run.path) in json.dumps(both.to_dict())


@pytest.mark.parametrize("name", ["classifier", "gru-classifier", "bag"])
def test_what_versus_says_is_what_predict_says(name: str, trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained[name]
    assert isinstance(loaded, LoadedPredictor)
    seen = look(loaded, example, versus="awful soup")
    assert isinstance(seen, View)
    for text in (example, "awful soup"):
        said = loaded.predict(text)
        assert f"{said.label} ({said.probability:.3f})" in seen.note


def test_versus_of_a_translator_says_its_translation(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["lstm-translator"]
    assert isinstance(loaded, LoadedTranslator)
    seen = look(loaded, example, versus="edcba")
    assert loaded.translate(example).text in json.dumps(seen.to_dict(), ensure_ascii=False)


def test_the_numbers_of_two_classes_end_in_what_predict_says(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["classifier"]
    assert isinstance(loaded, LoadedPredictor)
    seen = json.dumps(look(loaded, example, view="numbers").to_dict(), ensure_ascii=False)
    assert "positive" in seen
    probability = (loaded.predict(example).probabilities or {})["positive"]
    assert f"{probability:.4f}"[:5] in seen or f"{probability:.4g}"[:5] in seen


def test_a_head_of_a_classifier_is_worth_something_on_a_text(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["classifier"]
    assert isinstance(loaded, LoadedPredictor)
    for answer in (None, "negative"):
        (table,) = panels(look(loaded, example, ablate_heads="0.1", answer=answer), Table)[:1]
        probabilities = loaded.predict(example).probabilities or {}
        whole = -np.log(max(probabilities.values()) if answer is None else probabilities[answer])
        assert table.rows[0][1] - table.rows[0][2] == pytest.approx(whole, abs=1e-4)


def test_links(trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    file = tmp_path / "links.jsonl"
    file.write_text('{"text": "the soup was good and it was hot", "links": [[5, 1]]}\n')
    seen = look(trained["classifier"][0], links=file)
    assert isinstance(seen, View)
    assert "1 link" in seen.note


def test_links_of_two_relations(trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    file = tmp_path / "links.jsonl"
    file.write_text(
        '{"text": "the soup was good and it was hot", "links": {"subject": [[2, 1]], "pronoun": [[5, 1]]}}\n'
    )
    seen = look(trained["classifier"][0], links=file)
    assert [table.title for table in panels(seen, Table)] == ["The best heads: subject", "The best heads: pronoun"]
    assert len(panels(seen, Grid)) == 2


@pytest.mark.parametrize("name", ["translator", "lstm-translator"])
def test_gold_alignments(name: str, trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    file = tmp_path / "gold.txt"
    file.write_text("abc de ||| ed cba ||| 0-1 1-0\nab c ||| c ba ||| 0-1 1-0 0?0\n")
    loaded, _ = trained[name]
    seen = look(loaded, links=file)
    assert isinstance(seen, View)
    assert "Pairs: 2; sure links: 4;" in seen.note
    (grid,) = panels(seen, Grid)
    assert grid.values.shape == ((2, 2) if name == "translator" else (1, 1))
    with pytest.raises(Misuse, match="has no cross-attention: gold alignments are for translators"):
        look(trained["writer"][0], links=file)


def test_links_of_a_translator(trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    file = tmp_path / "links.jsonl"
    file.write_text('{"text": "ab cd", "links": [[1, 0]]}\n')
    assert "1 link" in look(trained["translator"][0], links=file).note
    with pytest.raises(Misuse, match="has no self-attention: give gold alignments, as in --links dates"):
        look(trained["lstm-translator"][0], links=file)


def test_the_cosine_of_a_word_with_others(trained: dict[str, tuple[Loaded, str]]) -> None:
    seen = look(trained["classifier"][0], "the soup was good", word="soup", anchors="good, bad")
    (chart,) = panels(seen, Lines)
    assert [line.name for line in chart.series] == ["good", "bad"]
    alone = look(trained["classifier"][0], "soup", word="soup", anchors="soup")
    np.testing.assert_allclose(panels(alone, Lines)[0].series[0].y, 1, atol=1e-6)


def test_what_heads_are_worth(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    some = look(loaded, example, ablate_heads="0.1,1.0")
    assert len(panels(some, Table)[0].rows) == 2
    every = look(loaded, view="head-ablation")
    assert len(panels(every, Table)[0].rows) == 4
    with pytest.raises(Misuse, match=r"2\.7"):
        look(loaded, example, ablate_heads="2.7")


@pytest.mark.slow
def test_roles_over_the_validation_part(trained: dict[str, tuple[Loaded, str]]) -> None:
    said: list[str] = []
    seen = look(trained["translator"][0], view="roles", say=said.append)
    assert len(panels(seen, Table)) == 2  # within the source, within the translation
    assert any("validation part" in line for line in said)


def test_moments_of_a_training(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    (frames,) = panels(look(loaded, example, view="learning"), Frames)
    assert list(frames.labels) == ["0", "1", "2", "3"]
    first, last = (next(panel for panel in moment if isinstance(panel, Heads)) for moment in frames.frames[::3])
    assert not np.allclose(first.weights, last.weights)


def test_the_last_pair_says_that_a_text_ends(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    (table,) = panels(look(loaded, example, view="pairs"), Table)
    assert (table.rows[0][1], table.rows[-1][2]) == ("<start>", "<end>")
    (cut,) = panels(look(loaded, example * 200, view="pairs"), Table)
    assert cut.rows[-1][2] != "<end>"  # it goes on


def test_pictures_of_words(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["classifier"]
    (tokens,) = panels(look(loaded, example, view="pooling"), Tokens)
    assert tokens.values.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "texts", "options", "words"),
    [
        ("writer", [""], {}, "there is no text to look at"),
        ("writer", [], {}, "there is no text to look at"),
        ("writer", ["a", "b"], {}, "one text, and there are 2"),
        ("writer", ["abc"], {"view": "atention"}, "did you mean attention"),
        ("writer", ["abc"], {"view": "alignment"}, "has no alignment to look at; it has attention"),
        ("lstm-writer", ["abc"], {"view": "attention"}, "has no attention to look at; it has logit-lens"),
        ("lstm-writer", ["abc"], {"view": "learning"}, "--keep-checkpoints"),
        ("writer", ["abc"], {"layer": 2}, "--layer is 2, but this run has layers 0 to 1"),
        ("writer", ["abc"], {"head": -1}, "--head is -1"),
        ("writer", ["abc"], {"mode": "line"}, "did you mean lines"),
        ("writer", ["abc"], {"word": "a", "versus": "b"}, "two views"),
        ("classifier", ["good"], {"word": "good", "anchors": " , "}, "--anchors has no words: separate them by commas"),
        ("classifier", ["good"], {"view": "attention", "anchors": "hot"}, "anchors"),
        ("writer", ["abc"], {"translation": "abc"}, "runs that translate"),
        ("writer", ["abc"], {"view": "next", "layer": 1}, "--layer is nothing to the view next; it is for attention"),
        ("lstm-writer", ["abc"], {"view": "all", "layer": 99}, "--layer is nothing to the view all; it is for numbers"),
        ("lstm-writer", ["abc"], {"view": "numbers", "head": 0}, "--head is for runs with attention, and .* has none"),
        ("lstm-writer", ["abc"], {"view": "states", "beam": 3}, "--beam is for runs that translate"),
        ("bag", ["good"], {"view": "numbers", "layer": 0}, "a bag has no layers"),
        ("writer", ["abc"], {"second_run": "x"}, '--second-run sees .* look RUN "A" --versus "B"'),
        ("writer", ["abc"], {"view": "positions"}, "it takes no text"),
        ("columns", [], {"links": "pronouns"}, "has no links to look at"),
        ("writer", ["a" * 30], {"view": "numbers"}, "at most 16 tokens"),
        ("writer", [], {"view": "links"}, "--links FILE"),
        ("writer", [], {"links": "nothing.jsonl"}, "nothing.jsonl"),
        ("writer", ["abc"], {"view": "versus"}, "second text"),
        ("writer", ["abc"], {"answer": "x"}, "runs that predict"),
        ("regressor", ['{"height": 1, "city": "Oslo", "size": "L"}'], {"answer": "nan"}, "numbers"),
        ("classifier", ["good"], {"view": "step"}, "one of negative, positive"),
        ("classifier", ["good"], {"view": "step", "answer": "positve"}, "did you mean positive"),
        ("regressor", ['{"height": 1, "city": "Oslo", "size": "L"}'], {"view": "step", "answer": "tall"}, "numbers"),
        ("patches", ["nothing.png"], {}, "nothing.png"),
        ("patches", [], {"view": "patches"}, "there is no image to look at: glassformer look RUN IMAGE.png"),
        ("table", ["a text"], {}, "JSON"),
    ],
)  # fmt: skip
def test_what_is_refused(
    name: str, texts: list[str], options: dict[str, Any], words: str, trained: dict[str, tuple[Loaded, str]]
) -> None:
    with pytest.raises(GlassformerError, match=words) as refused:
        look(trained[name][0], *texts, **options)
    assert "\n" not in str(refused.value)


def test_an_option_that_look_has_not(trained: dict[str, tuple[Loaded, str]]) -> None:
    with pytest.raises(TypeError, match="unknown option 'layr'; did you mean layer"):
        look(*trained["writer"], layr=1)


def test_a_text_that_is_too_long_is_cut_and_said(trained: dict[str, tuple[Loaded, str]]) -> None:
    said: list[str] = []
    for name in ("writer", "translator", "classifier"):
        look(
            trained[name][0],
            "abc " * 300,
            view="attention",
            translation="a" if name == "translator" else None,
            say=said.append,
        )
        assert "cut" in said[-1] or any("cut" in line for line in said)
        said.clear()


def test_endings(trained: dict[str, tuple[Loaded, str]], tmp_path: Path) -> None:
    seen = look(*trained["writer"])
    with pytest.raises(Misuse, match=r"must end in \.html"):
        seen.save(tmp_path / "view.gif")
    with pytest.raises(GlassformerError, match="cannot write"):
        seen.save(tmp_path / "nowhere" / "view.png")
    assert "<iframe" in seen._repr_html_()


def test_from_the_package(trained: dict[str, tuple[Loaded, str]]) -> None:
    loaded, example = trained["writer"]
    assert gf.look(loaded, example).title == look(loaded, example).title
    with gf.capture(loaded.model, ["logits"]) as seen:
        loaded.model(*gf_inputs(loaded, example))
    assert list(seen) == ["logits"]


def gf_inputs(loaded: Loaded, example: str) -> Any:
    from glassformer.families.evaluate import encode_example

    return encode_example(loaded, example).inputs
