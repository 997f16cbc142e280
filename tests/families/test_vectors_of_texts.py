"""A run that gives a vector for each text: what every verb makes of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from transformers import BertModel

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import Misuse, SettingError
from glassformer.families.embedding import LoadedEmbedder
from glassformer.inspection.views.registry import views_of
from glassformer.rendering.panels import Table, Tokens
from glassformer.rendering.view import View, Views
from helpers.bert_twins import TEXTS, save_bert, sentence_folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> LoadedEmbedder:
    folder = tmp_path_factory.mktemp("vectors")
    save_bert(folder / "in", BertModel)
    sentence_folder(folder / "in", mean_tokens=True)
    loaded = gf.load(gf.import_model(folder / "in", folder / "run"), "cpu")
    assert isinstance(loaded, LoadedEmbedder)
    return loaded


def test_a_vector_is_of_length_one_and_does_not_mind_its_neighbours(ours: LoadedEmbedder) -> None:
    together = ours.embed(TEXTS)
    for text, one in zip(TEXTS, together, strict=True):
        assert np.linalg.norm(one.vector) == pytest.approx(1, abs=1e-5)
        assert np.abs(ours.embed(text).vector - one.vector).max() < 1e-6
    assert np.abs(together[0].vector - together[1].vector).max() > 1e-3


def test_tokens_have_vectors_too_but_not_those_around_a_text(ours: LoadedEmbedder) -> None:
    found = ours.embed("the banking", tokens=True)
    assert found.tokens == ["the", "bank", "##ing"]
    assert found.vectors is not None
    assert found.vectors.shape == (3, 33)


def test_the_command_embeds(ours: LoadedEmbedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", str(ours.run.path), "the river", "money"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == ["the river", "money"]
    assert np.abs(np.array(lines[1]["vector"]) - ours.embed("money").vector).max() < 1e-6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["predict", "RUN", "x"], "only gives a vector for each text: glassformer embed RUN TEXT"),
        (["predict", "RUN", "--file", __file__], "only gives a vector for each text: glassformer embed RUN TEXT"),
        (["generate", "RUN", "x"], "not to write: glassformer embed RUN TEXT"),
        (["translate", "RUN", "x"], "not to translate: glassformer embed RUN TEXT"),
        (["evaluate", "RUN"], "only gives a vector for each text: glassformer embed RUN TEXT"),
        (["evaluate", "RUN", "iris"], "only gives a vector for each text: glassformer embed RUN TEXT"),
        (["look", "RUN", "x", "--view", "logit-lens"], "has no logit-lens to look at; it has attention"),
    ],
)
def test_other_verbs_name_the_right_one(
    words: list[str], says: str, ours: LoadedEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(ours.run.path)
    assert main([word.replace("RUN", run) for word in words]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert says.replace("RUN", run) in error[-1]


def test_vectors_are_nothing_to_train(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    with pytest.raises(SettingError, match="--task vectors is only for imported models"):
        gf.train(str(tmp_path / "a.txt"), task="vectors")


def test_looking_inside(ours: LoadedEmbedder) -> None:
    names = views_of(ours)
    assert {"attention", "pooling", "roles", "word", "nearest", "versus", "positions"} <= set(names)
    assert not {"logit-lens", "next", "attribution", "numbers", "step", "head-ablation", "learning", "report"} & set(
        names
    )
    page = gf.look(ours, "the river bank", view="all")
    assert isinstance(page, Views)
    for view in page.views:
        assert view.panels
    pooling = gf.look(ours, "the river bank", view="pooling")
    assert isinstance(pooling, View)
    shown = next(panel for panel in pooling.panels if isinstance(panel, Tokens))
    assert list(shown.tokens) == ["[CLS]", "the", "river", "bank", "[SEP]"]
    near = gf.look(ours, "bank", view="nearest")
    assert isinstance(near, View)


def test_a_word_in_several_texts(ours: LoadedEmbedder) -> None:
    view = gf.look(ours, "the river bank", "money in the bank", word="bank")
    assert isinstance(view, View)
    assert "bank" in view.title
    with pytest.raises(Misuse, match="bank"):
        gf.look(ours, "the river", "money", word="bank")


def test_checks_hold(ours: LoadedEmbedder) -> None:
    checks = gf.check(ours.run, only="cached,batched,padded,looked-at,saved,resumed")
    held = {one.name: one.passed for one in checks.checked}
    assert list(held.values()) == [None, True, True, True, True, None], held


def test_its_card_says_how_to_use_it(ours: LoadedEmbedder) -> None:
    assert f"glassformer embed {ours.run.path} 'A text'" in (ours.run.path / "README.md").read_text()
    assert repr(ours).startswith(f"{ours.run.path}: vectors, transformer")


def test_two_texts_are_compared_by_their_vectors(ours: LoadedEmbedder) -> None:
    view = gf.look(ours, "the river", versus="money")
    assert isinstance(view, View)
    one, other = (found.vector for found in ours.embed(["the river", "money"]))
    assert view.note.endswith(f"second text: cosine {one @ other:.3f} to the other text.")
    table = view.panels[0]
    assert isinstance(table, Table)
    assert (table.title, table.columns) == ("how alike the two vectors are", ("cosine",))
    assert float(str(table.rows[0][0])) == pytest.approx(float(one @ other), abs=1e-5)


def test_what_it_was_trained_on_is_not_known(ours: LoadedEmbedder) -> None:
    assert "report" not in views_of(ours)
    for use in (lambda: gf.look(ours, view="roles"), lambda: gf.report(ours)):
        with pytest.raises(Misuse, match="was imported: what it was trained on is not known here"):
            use()
