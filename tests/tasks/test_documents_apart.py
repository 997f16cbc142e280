"""Language models that read documents apart: what they learn and what they are judged by is that of documents alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.config.errors import SettingError
from glassformer.config.resolve import resolve
from glassformer.data.packing.store import Tokens
from glassformer.families.load import load
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from glassformer.tasks.language_model import LanguageModelling
from helpers.running import losses_of, tiny, train_here
from helpers.support import randomise, same

VOCAB, START, END = 11, 1, 2
CPU = torch.device("cpu")


def documents(*lengths: int) -> Tokens:
    random = np.random.default_rng(0)
    ids = [id for length in lengths for id in (START, *random.integers(3, VOCAB, length), END)]
    return Tokens(np.array(ids, np.uint16), sum(lengths), sum(lengths), len(lengths), 0)


def model_of(context: int) -> LanguageModel:
    settings = resolve({}, {**tiny(), "model.context": context}).model
    return randomise(build_language_model(settings, vocab=VOCAB)).eval()


def task_of(tokens: Tokens, context: int, **more: Any) -> LanguageModelling:
    settings = {"start": START, "end": END, "apart": True, "batch_size": 3, **more}
    return LanguageModelling({"train": tokens, "validation": tokens}, context=context, **settings)


def of_one(model: LanguageModel, ids: list[int]) -> float:
    """The loss of a stretch of one document, read alone."""
    if len(ids) < 2:
        return 0.0
    logs = model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    return -float(logs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].sum().detach())


def stretches(ids: list[int]) -> list[list[int]]:
    """Cut where a document begins; what follows END has no answer that it could know."""
    found: list[list[int]] = [[]]
    for id in ids:
        if id == START and found[-1]:
            found.append([])
        found[-1].append(id)
    return found


def test_what_is_learned_is_each_document_alone() -> None:
    model, task = model_of(17), task_of(documents(4, 6, 5, 9, 3, 8, 12, 7), 17)
    batch = task.batch(0)
    assert sum(row.count(START) for row in batch.ids.tolist()) > 3
    expected = sum(of_one(model, stretch) for row in batch.ids.tolist() for stretch in stretches(row))
    same(task.loss(model, *batch.tensors(CPU)), expected, 1e-4)
    together = task_of(task.parts["train"], 17, apart=False)
    assert abs(float(together.loss(model, *together.batch(0).tensors(CPU)).detach()) - expected) > 0.1
    halves = [batch.rows(0, 1), batch.rows(1, 3)]
    same(sum(task.loss(model, *half.tensors(CPU)) for half in halves), expected, 1e-4)


def test_what_it_is_judged_by_too() -> None:
    tokens = documents(4, 6, 5, 9)
    model = model_of(64)
    task = LanguageModelling({"validation": tokens}, context=64, start=START, end=END, apart=True)
    found = task.evaluate(model, "validation")
    expected = sum(of_one(model, stretch) for stretch in stretches(tokens.ids.tolist()))
    assert found.metrics["loss"] * found.metrics["tokens"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_run_reads_them_apart(tmp_path: Path) -> None:
    for name in ("apart", "joined"):
        settings = {**tiny(), "model.context": 32, "data.documents_apart": name == "apart"}
        train_here(tmp_path / name, settings, steps=2)
    # at first attention adds nothing: what differs is what one update has learned
    assert losses_of(tmp_path / "apart")[1] != losses_of(tmp_path / "joined")[1]
    run = load(tmp_path / "apart")
    assert isinstance(run.model, LanguageModel)
    whole = gf.evaluate(run)
    run.config.data.__dict__["documents_apart"] = False
    assert gf.evaluate(run).metrics["loss"] != whole.metrics["loss"]


def test_only_attention_can() -> None:
    with pytest.raises(SettingError, match=r"it goes with model\.encoder transformer"):
        resolve({}, {"model.encoder": "lstm", "data.documents_apart": True})
