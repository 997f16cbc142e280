"""Heads trained on what only attention can do: they learn to look where they must, and are called by what they do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.config.resolve import resolve
from glassformer.data.datasets import linked
from glassformer.data.datasets.embedded import open_dataset
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.load import load
from glassformer.inspection.attention import attention_of
from glassformer.inspection.views import head_roles as head_roles_module
from glassformer.inspection.views.head_ablation import ablate_each
from glassformer.inspection.views.head_roles import TextAttention, head_roles
from glassformer.inspection.views.links import LinkedText, link_scores, links_view, read_links
from glassformer.models.build import build_language_model
from glassformer.rendering.panels import Table
from glassformer.rendering.view import View
from glassformer.verbs.look import look
from glassformer.verbs.train import train

SMALL = {"model.layers": 1, "training.samples": False, "training.threads": 1}


def trained(data: str, folder: Path, **settings: Any) -> Loaded:
    return load(train(data, out=folder / "run", **SMALL, **settings).run, "cpu")


def as_seen(loaded: Loaded, text: str) -> TextAttention:
    seen = encode_example(loaded, text)
    return attention_of(loaded.model, seen.inputs)["self"], seen.ids


@pytest.mark.slow
def test_a_head_that_copies_continues_what_was_seen_before(tmp_path: Path) -> None:
    size = 6
    spec = f"copy:shortest={size},longest={size}"
    how = {"tokenizer.kind": "char", "model.heads": 1, "model.width": 32, "model.context": 32}
    loaded = trained(spec, tmp_path, **how, steps=300, lr=0.01)
    looked = [as_seen(loaded, text) for (text,) in open_dataset(f"{spec},rows=60,seed=9").rows()]
    for weights, ids in looked:
        second = range(size + 2, len(ids) - 1)  # after START, the letters and >; after the last, nothing is copied
        assert len(second) == size - 1
        assert [int(weights[0, 0, at].argmax()) for at in second] == [at - size for at in second]
    [[role]] = head_roles(looked)
    assert role.role == "induction"
    assert role.own.shares["induction"] > 0.6 > 5 * role.even.shares["induction"]


@pytest.mark.slow
def test_a_head_that_must_say_what_came_before_looks_at_the_previous_token() -> None:
    vocab, length = 13, 12
    how = {"layers": 1, "heads": 1, "width": 32, "context": 16, "positions": "learned", "dropout": 0.0}
    settings = resolve({}, {f"model.{name}": value for name, value in how.items()})
    model = build_language_model(settings.model, vocab=vocab)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    model.train()
    for _ in range(75):
        ids = torch.randint(vocab, (32, length))
        logits = model(ids)[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    texts = torch.randint(vocab, (20, 1, length))
    looked = [(attention_of(model, (ids,))["self"], ids[0].tolist()) for ids in texts]
    [[role]] = head_roles(looked)
    assert loss < 0.1
    assert role.role == "previous"
    assert role.own.shares["previous"] > 0.8 > 3 * role.even.shares["previous"]


@pytest.mark.slow
def test_a_head_that_reverses_looks_at_the_mirror_image(tmp_path: Path) -> None:
    spec = "reverse-pairs:shortest=4,longest=6"
    how = {"model.heads": 2, "model.width": 48, "model.positions": "learned", "model.dropout": 0.0, "model.context": 16}
    loaded = trained(spec, tmp_path, **how, steps=250, lr=0.01, **{"training.batch_tokens": 1024})
    on_mirror = []
    for source, target in open_dataset(f"{spec},rows=40,seed=9").rows():
        weights = attention_of(loaded.model, encode_example(loaded, source, target=target).inputs)["cross"][0]
        for step in range(len(source)):  # before letter `step` is written
            mirror = len(source) - 1 - step
            on_mirror.append([row[mirror] == row.max() for row in weights[:, step]])
    assert np.mean(on_mirror, 0).max() > 0.9


@pytest.fixture
def few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stories that are learned in a few seconds; with still fewer people, a head can do by looking at the other one."""
    for name in ("WOMEN", "MEN"):
        monkeypatch.setattr(linked, name, dict(list(getattr(linked, name).items())[:8]))
    for name, kept in (("tellings", 4), ("between", 2)):
        monkeypatch.setitem(linked.STORIES, name, linked.STORIES[name][:kept])


@pytest.mark.slow
@pytest.mark.usefixtures("few_people")
def test_a_head_finds_whom_a_pronoun_stands_for(tmp_path: Path) -> None:
    how = {"tokenizer.kind": "word", "model.heads": 2, "model.width": 64, "model.context": 48}
    loaded = trained("pronouns:rows=2000", tmp_path, **how, steps=400, lr=0.008)
    assert loaded.tokenizer is not None
    linked = read_links("pronouns:rows=600")

    def looked() -> Iterator[tuple[LinkedText, TextAttention]]:
        return ((one, as_seen(loaded, one.text)) for one in linked)

    scores = link_scores(looked(), loaded.tokenizer)["antecedent"]
    assert scores.found.shape == (1, 2)
    assert scores.found.max() > 0.8
    assert scores.weight[scores.ranking()[0]] > 0.5
    assert scores.previous == 0
    assert scores.first < 0.25
    assert (scores.turned, scores.left_out) == (0, 0)
    assert links_view({"": scores}).note.startswith(f"Head {scores.ranking()[0][0]}.{scores.ranking()[0][1]} finds ")

    def mistakes() -> float:
        """The part of the deeds that the model does not guess."""
        wrong = []
        for one in linked[:20]:
            seen = encode_example(loaded, one.text)
            guesses = loaded.model(*seen.inputs)[0].argmax(-1).tolist()
            wrong += [guesses[source + 1] != seen.ids[source + 2] for source, _ in one.links["antecedent"]]
        return float(np.mean(wrong))

    worth = ablate_each(mistakes, loaded.model)
    assert worth.whole < 0.2
    assert worth.cost(("self", *scores.ranking()[0])) > 0.5


@pytest.mark.slow
def test_two_heads_find_subject_and_object(tmp_path: Path) -> None:
    run = train("subject-object", out=tmp_path / "run", seed=0).run
    view = look(run, view="links")
    assert isinstance(view, View)
    tables = [panel for panel in view.panels if isinstance(panel, Table)]
    assert [table.title for table in tables] == ["The best heads: subject", "The best heads: object"]
    (first, subjects, *_), (second, objects, *_) = (table.rows[0] for table in tables)
    assert first != second
    assert min(subjects, objects) > 0.9
    roles = look(run, view="roles")
    assert isinstance(roles, View)
    table = roles.panels[0]
    assert isinstance(table, Table)
    named = {row[0]: str(row[1]) for row in table.rows}
    assert named[first].startswith("finds the subject")
    assert named[second].startswith("finds the object")


def test_a_head_that_finds_antecedents_is_called_so(tmp_path: Path) -> None:
    """Hand-made: from each pronoun one head gives everything to the name that is meant, the other spreads evenly."""
    loaded = trained("pronouns:rows=60", tmp_path, **{"model.heads": 2, "model.width": 8}, steps=1)
    meant = {linked.text: linked.links["antecedent"] for linked in read_links("pronouns:rows=60")}

    def finding(model: Any, inputs: Any) -> dict[str, Any]:
        size = inputs[0].shape[1]
        weights = np.tril(np.ones((1, 2, size, size)))
        weights /= weights.sum(-1, keepdims=True)
        words = [loaded.tokenizer.token(id).strip() for id in inputs[0][0].tolist()]  # type: ignore[union-attr]
        for source, target in meant.get(" ".join(words[1:]), ()):
            weights[0, 1, source + 1] = np.eye(size)[target + 1]
        return {"self": weights}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_roles_module, "attention_of", finding)
        view = look(loaded, view="roles")
    assert isinstance(view, View)
    table = view.panels[0]
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows[:2]] == ["spread evenly", "finds the antecedent of a pronoun (1.00)"]
    assert table.takeaway == "1 of 2 heads have a plain role"
    links = sum(map(len, meant.values()))
    assert f" of {links} links" in look(loaded, view="links").note  # those of its own data set
