"""all-MiniLM-L6-v2 itself: the vectors of sentences that everybody uses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

import glassformer as gf
from glassformer.families.embedding import LoadedEmbedder
from glassformer.rendering.panels import Frames, Grid
from glassformer.rendering.view import View

pytestmark = pytest.mark.weights

TEXTS = [
    "The cat sat on the mat.",
    "A feline was resting on a rug.",
    "Die Katze saß auf der Matte.",
    "El gato se sentó en la alfombra.",
    "Кошка сидела на коврике.",
    "猫はマットの上に座った。",
    "naïve café, 12 % of $3.50 … [CLS] and [MASK]",
    "",
    "x",
    "UPPER CASE and lower case",
    "a very long text of many words, which goes on and on. " * 70,
    "Stocks fell sharply on Tuesday.",
]
RIVER = [
    "we sat on the bank of the river",
    "the boat drifted to the muddy bank",
    "reeds grow along the bank of the lake",
]
MONEY = ["she paid the cheque into the bank", "the bank raised its interest rates", "he works as a teller at the bank"]


@pytest.fixture(scope="module")
def ours(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedEmbedder:
    loaded = gf.load(gf.import_model(minilm_folder, tmp_path_factory.mktemp("runs") / "minilm"), "cpu")
    assert isinstance(loaded, LoadedEmbedder)
    return loaded


def test_sentences_have_the_same_vectors(ours: LoadedEmbedder, minilm_folder: Path) -> None:
    model, tokenizer = AutoModel.from_pretrained(minilm_folder).eval(), AutoTokenizer.from_pretrained(minilm_folder)
    plain = [text.replace("[CLS]", "CLS").replace("[MASK]", "MASK") for text in TEXTS]  # theirs reads them as marks
    batch = tokenizer(plain, return_tensors="pt", padding=True, truncation=True, max_length=512)
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    real = batch["attention_mask"].unsqueeze(-1)
    wanted = F.normalize((states * real).sum(1) / real.sum(1)).numpy()
    found = np.stack([one.vector for one in ours.embed(plain)])
    assert np.abs(found - wanted).max() < 1e-5
    alone = np.stack([ours.embed(text).vector for text in plain])
    assert np.abs(alone - wanted).max() < 1e-5
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    assert found[0] @ found[1] > 0.5 > found[0] @ found[11]


def test_the_name_of_a_special_token_is_text(ours: LoadedEmbedder) -> None:
    tokens = ours.embed("the [MASK] of the cat", tokens=True).tokens
    assert tokens is not None
    assert "[MASK]" not in tokens
    assert "mask" in tokens


def test_the_two_senses_of_bank_are_apart(ours: LoadedEmbedder) -> None:
    view = gf.look(ours, *RIVER, *MONEY, word="bank")
    assert isinstance(view, View)
    frames = view.panels[0]
    assert isinstance(frames, Frames)
    last = frames.frames[-1][0]
    assert isinstance(last, Grid)
    alike, same = np.asarray(last.values), np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    within, across = alike[same & ~np.eye(6, dtype=bool)], alike[~same]
    assert within.mean() > across.mean() + 0.1
    assert (within.reshape(6, 2).mean(1) > across.reshape(6, 3).mean(1)).all()
