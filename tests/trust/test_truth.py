"""What nobody can know scores at chance: labels, numbers and translations that were shuffled, tokens drawn blindly.

Whatever leaked from an answer to a model (a row on both sides, a column too many, a window that sees its future,
weights chosen by what they are judged on) would score above. Each model also learns the same data unshuffled: it could
have noticed.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import glassformer as gf
from glassformer.config.encoders import ENCODERS
from glassformer.config.presets import IMAGE, MASKED, MIXED, TABLE, TEXT
from glassformer.families.build import prepare_again
from glassformer.families.load import load
from glassformer.runs.run import Run
from glassformer.statistics.intervals import Interval, share_interval, weighted_mean_interval
from glassformer.statistics.paired import difference
from glassformer.tasks.base import Evaluation
from helpers.attempts import Tried
from helpers.kinds import write_rows
from helpers.running import CAUSAL, labelled, tiny
from helpers.tables import WORDS, write_table
from helpers.translating import translating

pytestmark = pytest.mark.trust

LEVEL = 0.9999
"""One of ten thousand honest models would be taken for one that knows too much."""
ROWS = 400
HELD_OUT = {"data.test_fraction": 0.5, "data.validation_fraction": 0.1}
LEARNING = {"training.steps": 60, "training.batch_size": 16, "training.validate_every": 60, "training.lr": 0.02}


# --- classes, several labels, numbers: of texts, tables, mixtures, images ---


ANSWERS: dict[str, Callable[[int, Random], str]] = {
    "class": lambda side, chance: ("no", "yes")[side],
    "labels": lambda side, chance: "; ".join(name for name in ("odd", "warm") if side == (chance.random() < 0.2)),
    "number": lambda side, chance: f"{20 * side + chance.gauss(0, 1):.3f}",
}


@dataclass(frozen=True)
class Data:
    """A table or a file of images, and the settings that it is learned with."""

    kind: str
    path: Path
    settings: dict[str, Any]


def make_data(folder: Path, kind: str, answer: str, *, shuffled: bool, seed: int) -> Data:
    """Examples of two sides that every encoder of this kind can tell apart, and an answer that depends on the side."""
    chance = Random(seed)
    sides = [row % 2 for row in range(ROWS)]
    answers = [ANSWERS[answer](side, chance) for side in sides]
    if shuffled:
        chance.shuffle(answers)
    name = f"{kind}-{answer}-{seed}-{'shuffled' if shuffled else 'true'}"
    if kind == IMAGE:
        images = np.random.default_rng(seed).integers(0, 80, (ROWS, 8, 8)).astype(np.uint8)
        for side in (0, 1):
            images[side::2, 4 * side : 4 * side + 4] += 100  # bright above, or below
        np.savez(folder / f"{name}.npz", images=images, labels=np.array(answers))
        return Data(kind, folder / f"{name}.npz", {})
    rows = [
        {
            "text": f"soup {' '.join(f'{row:03}')} was {chance.choice(WORDS['good' if side else 'bad'])}",
            "height": f"{chance.gauss(4 * side, 1):.4f}",
            "city": chance.choice(("Rome", "Oslo")),
            "answer": answers[row],
        }
        for row, side in enumerate(sides)
    ]
    dropped = {TEXT: ("height", "city"), TABLE: ("text",), MIXED: ()}[kind]
    kept = [{key: value for key, value in row.items() if key not in dropped} for row in rows]
    extra = {"data.extra_columns": "height,city"} if kind == MIXED else {}
    return Data(kind, write_rows(folder / f"{name}.csv", kept), {"data.label": "answer", **extra})


def learn(data: Data, encoder: str, out: Path) -> Evaluation:
    """What a tiny model of this kind makes of a test part that it has never seen."""
    model = labelled(encoder) if data.kind in (TEXT, MIXED) else {"model.encoder": encoder}
    if data.kind == IMAGE and encoder == "transformer":
        model["model.patch"] = 4
    gf.train(data.path, out=out, **{**model, **LEARNING, **HELD_OUT, **data.settings})
    return gf.evaluate(out, part="test")


def knowledge(evaluation: Evaluation) -> Interval:
    """How much more is known than chance alone would: above 0, if the whole interval is."""
    records, metrics = evaluation.records, evaluation.metrics
    if "r2" in metrics:
        errors = np.array([record["error"] for record in records])
        numbers = np.array([record["number"] for record in records])
        return difference((numbers - numbers.mean())[None] ** 2, errors[None] ** 2, level=LEVEL)
    if "micro_f1" in metrics:  # whether a label is said and whether it is true go together
        said, true = (
            np.array([[name in record[key] for name in evaluation.details["per_label"]] for record in records], float)
            for key in ("predicted", "labels")
        )
        return weighted_mean_interval(((said - said.mean(0)) * (true - true.mean(0))).sum(1), level=LEVEL)
    share = share_interval(sum(record["predicted"] == record["label"] for record in records), len(records), LEVEL)
    return Interval(share.value - 0.5, share.low - 0.5, share.high - 0.5)


CASES = [
    pytest.param(kind, encoder, answer, id=f"{kind}-{encoder}-{answer}")
    for kind in (TEXT, TABLE, MIXED, IMAGE)
    for encoder, info in ENCODERS.items()
    if kind in info.reads
    for answer in ANSWERS
    if kind != IMAGE or answer == "class"  # a folder of images has classes
]


@pytest.mark.parametrize(("kind", "encoder", "answer"), CASES)
def test_shuffled_answers_are_not_known(kind: str, encoder: str, answer: str, tmp_path: Path, tried: Tried) -> None:
    seed = sum(map(ord, kind + encoder + answer))
    shuffled = learn(make_data(tmp_path, kind, answer, shuffled=True, seed=seed), encoder, tmp_path / "shuffled")
    known = knowledge(shuffled)
    assert known.low <= 0, shuffled.summary
    if "r2" in shuffled.metrics:
        assert shuffled.metrics["r2"] < 0.1
    if "accuracy" in shuffled.metrics:
        assert known.high >= 0, shuffled.summary  # nor less than chance
    if answer == "class":
        true = learn(make_data(tmp_path, kind, answer, shuffled=False, seed=seed), encoder, tmp_path / "true")
        assert knowledge(true).low > 0, true.summary
    tried(
        f"shuffled answers: {kind}",
        "every model that accepts such data",
        1,
        "scores at chance; the same data unshuffled is learned",
    )


# --- translations ---


@pytest.mark.parametrize("encoder", CAUSAL)
def test_shuffled_translations_are_not_known(encoder: str, tmp_path: Path, tried: Tried) -> None:
    """Which of two letters a source stands for, told by each of its own."""
    chance = Random(sum(map(ord, encoder)))
    sources = [
        word for letters in ("abcd", "efgh") for word in sorted(map("".join, itertools.product(letters, repeat=4)))
    ]
    targets = ["A"] * 256 + ["B"] * 256
    right = {}
    for name, answers in (("true", targets), ("shuffled", chance.sample(targets, len(targets)))):
        table = write_table(tmp_path / f"{name}.csv", list(zip(sources, answers, strict=True)), ("source", "target"))
        settings = translating(encoder, training__steps=80, training__validate_every=80, training__batch_tokens=160)
        settings |= {"model.width": 32, "model.decoder_layers": 1, "training.lr": 0.01}
        if "model.layers" in settings:
            settings["model.layers"] = 1
        gf.train(table, out=tmp_path / name, **settings, **HELD_OUT)
        records = gf.evaluate(tmp_path / name, part="test", beam=1).records
        answers = Counter(record["target"] for record in records)
        right[name] = share_interval(sum(record["exact"] for record in records), len(records), LEVEL)
    chance_level = max(answers.values()) / answers.total()
    assert right["shuffled"].low <= chance_level, right
    assert right["true"].low > 0.5, right
    tried(
        "shuffled answers: translation",
        "every model that accepts such data",
        1,
        "scores at chance; the same data unshuffled is learned",
    )


# --- tokens ---


LETTERS = "abcdefgh"
SHARES = np.array([2.0**-place for place in range(1, 9)]) / (1 - 2.0**-8)


def unforeseen(run: Path, evaluation: Evaluation) -> Interval:
    """How many nats a token the model saves against who knows nothing but how frequent each letter is."""
    tokenizer = load(run).tokenizer
    assert tokenizer is not None
    costs = np.full(tokenizer.vocab_size, math.nan)
    for letter, share in zip(LETTERS, SHARES, strict=True):
        costs[tokenizer.encode(letter)] = -math.log(share)
    ids = prepare_again(Run(run)).task.parts["validation"].ids
    unigram = costs[np.asarray(ids)[evaluation.arrays["place"]]]
    letters = ~np.isnan(unigram)  # not where a document ends
    assert letters.sum() > 100
    return weighted_mean_interval((unigram - evaluation.arrays["loss"])[letters], level=LEVEL)


@pytest.mark.parametrize("task", ["language-model", MASKED])
@pytest.mark.parametrize("encoder", CAUSAL)
def test_letters_drawn_blindly_are_not_foreseen(encoder: str, task: str, tmp_path: Path, tried: Tried) -> None:
    """No model has a lower loss on them than the entropy of one letter."""
    chance = np.random.default_rng(sum(map(ord, encoder + task)))
    drawn = "".join(chance.choice(list(LETTERS), 10_000, p=SHARES))
    saved = {}
    for name, text in (("drawn", drawn), ("ordered", LETTERS * 1000)):
        (tmp_path / f"{name}.txt").write_text(text)
        settings = tiny(encoder, training__steps=60, training__validate_every=60, task=task)
        settings |= {"training.lr": 0.02, "training.batch_size": 32, "model.dropout": 0.0, "model.width": 16}
        if task == MASKED:
            del settings["training.samples"]
        gf.train(tmp_path / f"{name}.txt", out=tmp_path / name, **settings)
        saved[name] = unforeseen(tmp_path / name, gf.evaluate(tmp_path / name, part="validation"))
    assert saved["drawn"].low <= 0, saved
    assert saved["drawn"].high > -1.0, saved  # it has learned how frequent they are
    if not (encoder == "average" and task == MASKED):  # at a hidden place it has nothing to read
        assert saved["ordered"].low > 0, saved
    tried(f"random tokens: {task}", "every encoder", 1, "loss not below the entropy of one token")
