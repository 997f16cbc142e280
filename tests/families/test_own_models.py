"""A model of one's own: an nn.Module, or a function that makes one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.runs.run import Run
from glassformer.verbs.train import train
from helpers.loading import TEXTS, loaded
from helpers.running import identical, losses_of, tensors_of


class Own(nn.Module):
    """Mean of word vectors, by hand."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 5)
        self.out = nn.Linear(5, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        shown = mask.unsqueeze(-1)
        return self.out((self.table(tokens) * shown).sum(1) / shown.sum(1).clamp(min=1))


OWN = {"training.steps": 4, "training.optimizer": "adamw", "training.lr": 0.05}


def test_a_function_that_makes_a_model(table: Path, tmp_path: Path) -> None:
    sizes = []

    def make(vocab: int, outputs: int) -> nn.Module:
        sizes.append((vocab, outputs))
        return Own(vocab, outputs)

    run = train(table, out=tmp_path / "run", model=make, **OWN)
    assert sizes == [(Run.open(run).tokenizer().vocab_size, 3)]
    assert (run.model, run.steps) == ("own", 4)
    found = loaded(run, model=make).predict(TEXTS)
    assert len({prediction.probability for prediction in found}) == 4
    again = loaded(run, model=Own(*sizes[0])).predict(TEXTS)  # a module with other weights, which are replaced
    assert again == found
    evaluated = gf.evaluate(loaded(run, model=make))
    assert evaluated.metrics == pytest.approx(run.validation)
    torch.rand(3)  # its first weights follow from the seed alone
    train(table, out=tmp_path / "again", model=make, **OWN)
    identical(tensors_of(tmp_path / "again"), tensors_of(Path(run)))


def test_a_module(table: Path, tmp_path: Path) -> None:
    vocab = 200  # more than there are words
    module = Own(vocab, 3)
    before = module.out.weight.detach().clone()
    run = train(table, out=tmp_path / "run", model=module, **OWN)
    assert not torch.equal(module.out.weight, before)  # it is this one that learns
    model = loaded(run, model=Own(vocab, 3))
    in_memory = replace(model, model=module)
    assert model.predict(TEXTS) == in_memory.predict(TEXTS)


def test_a_model_of_ones_own_goes_on(table: Path, tmp_path: Path) -> None:
    train(table, out=tmp_path / "whole", model=Own, **{**OWN, "training.schedule": "constant"})
    half = {**OWN, "training.steps": 2, "training.schedule": "constant"}
    train(table, out=tmp_path / "half", model=Own, **half)
    train(out=tmp_path / "half", resume=True, model=Own, steps=4)
    assert losses_of(tmp_path / "half") == losses_of(tmp_path / "whole")


def test_a_model_of_ones_own_must_be_given_again(table: Path, tmp_path: Path) -> None:
    run = train(table, out=tmp_path / "run", model=Own, **OWN)
    with pytest.raises(gf.GlassformerError) as caught:
        gf.load(run)
    assert "a person's own nn.Module" in str(caught.value)
    assert "model=…" in str(caught.value)
    with pytest.raises(gf.GlassformerError, match="a model of your own: glassformer does not know its vectors"):
        loaded(run, model=Own).embed("x")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (lambda vocab, outputs: Own(vocab, outputs + 1), "the model gave scores of shape"),
        (lambda vocab, outputs: "a model", "model=… must be an nn.Module or return one, not a str"),
    ],
)
def test_a_model_of_ones_own_that_does_not_fit(own: Any, message: str, table: Path, tmp_path: Path) -> None:
    with pytest.raises(gf.GlassformerError) as caught:
        train(table, out=tmp_path / "run", model=own, **OWN)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_of_ones_own_does_not_translate(tmp_path: Path) -> None:
    with pytest.raises(gf.GlassformerError, match="cannot learn translation, only labels, numbers or the next token"):
        train("reverse-pairs:rows=60", out=tmp_path / "run", model=Own, **OWN, **{"tokenizer.kind": "char"})
