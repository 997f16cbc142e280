"""Classifiers and regressors of every encoder and pool: padding is nothing, they learn, and they start unsure."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import SettingError
from glassformer.config.model_section import POOLS, ModelSettings
from glassformer.config.presets import STYLES
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.registry import BUILDERS
from glassformer.models.build import build_language_model, build_predictor, learned_count, parameter_count, put_vectors
from glassformer.models.modules import BagPredictor, Predictor
from helpers.support import Seen, differs, numbers, randomise, ready, same, tokens

B, T, VOCAB, OUT = 5, 7, 13, 3
LENGTHS = (T, 4, 1, 2, 6)
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
Flags = dict[str, Any]

VARIANTS: list[tuple[str, Flags]] = [
    *((name, {}) for name in BUILDERS),
    *((name, {"bidirectional": True}) for name in BUILDERS if "bidirectional" in ENCODERS[name].keys),
    *((name, {"embed": "onehot"}) for name in BUILDERS if ENCODERS[name].any_width),
    *(("transformer", {"style": style}) for style in STYLES),
    ("cnn", {"kernel": 3, "norm": "layer"}),
    ("lstm", {"embed_width": 10}),
    ("average", {"embed_width": 10, "head_layers": 2}),
]
BAGS: list[tuple[str, Flags]] = [
    ("bag", {}),
    ("bag", {"weighting": "counts"}),
    ("bag", {"ngrams": 3, "buckets": 101}),
    ("bag", {"head_layers": 1, "head_hidden": 11}),
    ("bag", {"head_layers": 2, "head_hidden": 11, "ngrams": 2, "buckets": 101}),
    ("bag", {"head_layers": 2, "head_hidden": 11, "head_activation": "sigmoid", "head_bias": False}),
]
every_predictor = pytest.mark.parametrize(("name", "flags"), [*VARIANTS, *BAGS], ids=str)
every_pool = pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "flatten"])


def settings_of(name: str, **flags: Any) -> ModelSettings:
    used = used_keys(name)
    small = {"width": 24, "layers": 2, "heads": 3, "window": 4, "context": 17}
    chosen = {"encoder": name, **{key: value for key, value in small.items() if key in used}, **flags}
    return resolve({}, {"task": "classification", **{f"model.{key}": value for key, value in chosen.items()}}).model


def reader_of(name: str, seed: int = 0, outputs: int = OUT, **flags: Any) -> Predictor | BagPredictor:
    return build_predictor(settings_of(name, **flags), vocab=VOCAB, outputs=outputs, seed=seed)


def in_use(name: str, **flags: Any) -> Predictor | BagPredictor:
    """Random weights. One-hot vectors are single precision, so all of them are; bags know their frequencies."""
    model = randomise(reader_of(name, **flags)).eval()
    if isinstance(model, BagPredictor):
        model.bag.learn_frequencies([(tokens(B, T, vocab=VOCAB, seed=9), None)])
    return model


@every_predictor
def test_embed_encode_pool_answer(name: str, flags: Flags) -> None:
    model = in_use(name, **flags)
    words = tokens(B, T, vocab=VOCAB)
    features, scores = model.features(words, MASK), model(words, MASK)
    assert scores.shape == (B, OUT)
    same(scores, model.head(features))
    states = model.states(words, MASK)
    assert states.shape[:2] == (B, T)
    if isinstance(model, Predictor):
        same(states[MASK], model.encoder(model.embed(words), MASK)[MASK])
        same(features, model.pool(states, MASK))
    else:
        same(features, states.sum(1), 1e-5)


def check_padding(model: Predictor | BagPredictor, words: Tensor) -> None:
    scores, states = model(words, MASK), model.states(words, MASK)
    loud = words.masked_fill(~MASK, VOCAB - 1)
    same(model(loud, MASK), scores, 1e-4)
    for row, length in enumerate(LENGTHS):
        alone = words[row : row + 1, :length]
        same(scores[row], model(alone)[0], 1e-4)
        same(states[row, :length], model.states(alone)[0], 1e-4)


@pytest.mark.sample(5)
@pytest.mark.parametrize(("name", "flags"), VARIANTS, ids=str)
@every_pool
def test_padding_changes_nothing(name: str, flags: Flags, pool: str) -> None:
    check_padding(in_use(name, pool=pool, **flags), tokens(B, T, vocab=VOCAB))


@pytest.mark.parametrize(("name", "flags"), BAGS, ids=str)
def test_padding_is_not_in_the_bag(name: str, flags: Flags) -> None:
    check_padding(in_use(name, **flags), tokens(B, T, vocab=VOCAB))


@every_predictor
def test_a_text_without_tokens(name: str, flags: Flags) -> None:
    """The head answers for a vector of zeros, and the other texts do not notice."""
    model = in_use(name, **flags)
    words, mask = tokens(B, T, vocab=VOCAB), MASK.clone()
    mask[2] = False
    features = model.features(words, mask)
    assert (features[2] == 0).all()
    others = torch.tensor([0, 1, 3, 4])
    same(features[others], model.features(words, MASK)[others], 1e-5)
    model(words, mask).square().sum().backward()
    for key, weight in model.named_parameters():
        assert weight.grad is None or weight.grad.isfinite().all(), key


@pytest.mark.parametrize("name", [*BUILDERS, "bag"])
def test_order_matters_to_those_who_know_it(name: str) -> None:
    model = in_use(name)
    words, order = tokens(B, T, vocab=VOCAB), torch.randperm(T, generator=torch.Generator().manual_seed(3))
    assert differs(model(words), model(words[:, order])) == ENCODERS[name].ordered


@pytest.mark.sample(5)
@pytest.mark.parametrize(("name", "flags"), VARIANTS, ids=str)
@every_pool
def test_every_weight_is_learned(name: str, flags: Flags, pool: str) -> None:
    check_learning(in_use(name, pool=pool, **flags).train())


@pytest.mark.parametrize(("name", "flags"), BAGS, ids=str)
def test_every_weight_of_a_bag_is_learned(name: str, flags: Flags) -> None:
    check_learning(in_use(name, **flags).train())


def check_learning(model: nn.Module) -> None:
    model(tokens(B, T, vocab=VOCAB), MASK).pow(3).sum().backward()
    for key, weight in model.named_parameters():
        assert weight.grad is not None, key
        assert (weight.grad != 0).any(), key


@pytest.mark.slow
@pytest.mark.parametrize(("name", "flags"), [*VARIANTS, *BAGS], ids=str)
def test_one_batch_is_overfitted(name: str, flags: Flags) -> None:
    model = reader_of(name, **{"dropout": 0.0, "word_dropout": 0.0, **flags})
    words, true = tokens(8, T, vocab=VOCAB, seed=5), torch.arange(8) % OUT
    mask = torch.arange(T) < torch.tensor([T, 4, 5, T, 6, 5, T, 4])[:, None]
    if isinstance(model, BagPredictor):
        model.bag.learn_frequencies([(words, mask)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2 if name in ("bag", "average") else 1e-2, weight_decay=0.0)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(words, mask), true).backward()
        optimizer.step()
    assert F.cross_entropy(model.eval()(words, mask), true).item() < 0.2


def test_both_ways_are_read_to_their_ends() -> None:
    """Pooled at the last token, each way has seen the whole text."""
    model = in_use("gru", bidirectional=True, pool="last", layers=1)
    words = tokens(1, T, vocab=VOCAB)
    before = model.features(words)[0]
    for place in (0, T - 1):
        other = words.clone()
        other[0, place] = (words[0, place] + 1) % VOCAB
        changed = (model.features(other)[0] - before).abs() > 1e-6
        assert changed[:12].any()
        assert changed[12:].any()
    one_way = in_use("gru", pool="last", layers=1)
    same(one_way.features(words), one_way.states(words)[:, -1])


# How they start


@every_predictor
@pytest.mark.parametrize("outputs", [2, 11])
def test_the_first_answer_is_that_nothing_is_known(name: str, flags: Flags, outputs: int) -> None:
    model = reader_of(name, outputs=outputs, **flags)
    scores = model(tokens(B, T, vocab=VOCAB), MASK)
    loss = F.cross_entropy(scores, torch.arange(B) % outputs).item()
    assert loss == pytest.approx(math.log(outputs), abs=0.15)


def test_how_a_head_starts() -> None:
    model = reader_of("average", width=200, head_layers=2, head_hidden=300, outputs=150)
    assert isinstance(model, Predictor)
    first, second = model.head.hidden
    assert model.head.output.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert first.weight.std().item() == pytest.approx(math.sqrt(2 / 200), rel=0.05)
    assert second.weight.std().item() == pytest.approx(math.sqrt(2 / 300), rel=0.05)
    for layer in (first, second, model.head.output):
        assert (layer.bias == 0).all()


def test_how_a_bag_starts() -> None:
    linear, deep = reader_of("bag"), reader_of("bag", head_layers=1, head_hidden=500)
    assert isinstance(linear, BagPredictor)
    assert isinstance(deep, BagPredictor)
    assert (linear.bag.table.weight == 0).all()
    assert deep.bag.table.weight.std().item() == pytest.approx(500**-0.5, rel=0.05)
    assert deep.head[-1].output.weight.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("name", BUILDERS)
def test_embed_and_encoder_start_as_in_a_language_model(name: str) -> None:
    reader = reader_of(name)
    writer = build_language_model(settings_of(name), vocab=VOCAB).state_dict()
    spread = {key: value.float().std(correction=0).item() for key, value in reader.state_dict().items()}
    for key, value in spread.items():
        if not key.startswith(("head.", "pool.")):
            assert value == pytest.approx(writer[key].float().std(correction=0).item(), rel=0.3, abs=1e-6), key


@every_predictor
def test_the_same_seed_gives_the_same_weights(name: str, flags: Flags) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (reader_of(name, seed=seed, **flags).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[key], again[key]) for key in first)
    if name != "bag" or flags.get("head_layers"):  # a linear bag starts at 0
        assert any(differs(first[key], other[key]) for key in first)


@every_predictor
def test_save_and_load(name: str, flags: Flags) -> None:
    model, other = in_use(name, **flags), reader_of(name, seed=1, **flags).eval()
    words = tokens(B, T, vocab=VOCAB)
    assert differs(model(words, MASK), other(words, MASK))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(words, MASK), other(words, MASK))


def test_a_bag_is_made_as_it_is_told() -> None:
    model = reader_of("bag", weighting="counts", ngrams=3, buckets=101, word_dropout=0.25)
    assert isinstance(model, BagPredictor)
    bag = model.bag
    assert (bag.weighting, bag.ngrams, bag.buckets, bag.word_dropout.p) == ("counts", 3, 101, 0.25)
    assert bag.table.weight.shape == (VOCAB + 101, OUT)
    deep = reader_of("bag", head_layers=2, head_hidden=11)
    assert parameter_count(deep) == VOCAB * 11 + 11 + 11 * 11 + 11 + 11 * OUT + OUT


def test_a_linear_bag_is_multinomial_logistic_regression() -> None:
    model = in_use("bag", weighting="counts")
    assert isinstance(model, BagPredictor)
    words = tokens(B, T, vocab=VOCAB)
    counts = np.stack([np.bincount(row[:length], minlength=VOCAB) for row, length in zip(words, LENGTHS, strict=True)])
    table, bias = model.bag.table.weight.detach().numpy(), model.head.bias.detach().numpy()
    same(model.features(words, MASK), counts @ table, 1e-4)
    same(model(words, MASK), counts @ table + bias, 1e-4)


def test_a_deep_bag_written_out() -> None:
    model = in_use("bag", weighting="counts", head_layers=2, head_hidden=11)
    words = tokens(B, T, vocab=VOCAB)
    counts = F.one_hot(words, VOCAB).sum(1).numpy()
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    hidden = np.maximum(counts @ weights["bag.table.weight"] + weights["head.0.bias"], 0)
    hidden = np.maximum(hidden @ weights["head.3.hidden.0.weight"].T + weights["head.3.hidden.0.bias"], 0)
    same(model(words), hidden @ weights["head.3.output.weight"].T + weights["head.3.output.bias"], 1e-4)


def test_an_average_of_one_hot_vectors_is_a_bag() -> None:
    words = tokens(B, T, vocab=VOCAB)
    average = in_use("average", embed="onehot", pool="sum")
    bag = in_use("bag", weighting="counts")
    assert isinstance(average, Predictor)
    assert isinstance(average.embed, OneHot)
    same(average.features(words, MASK) @ bag.bag.table.weight, bag.features(words, MASK), 1e-4)


# Dropout


@pytest.mark.parametrize("name", [*BUILDERS, "bag"])
@pytest.mark.parametrize("key", ["dropout", "word_dropout"])
def test_dropout_in_training_only(name: str, key: str) -> None:
    model = in_use(name, head_layers=1, **{key: 0.3})
    words = tokens(B, T, vocab=VOCAB)
    assert torch.equal(model(words, MASK), model(words, MASK))
    model.train()
    assert differs(model(words, MASK), model(words, MASK))


def test_words_are_dropped_before_the_encoder() -> None:
    model = in_use("transformer", word_dropout=0.5).train()
    assert isinstance(model, Predictor)
    with Seen(words=model.word_dropout) as seen:
        model(tokens(B, T, vocab=VOCAB))
    gone = seen["words"] == 0
    assert torch.equal(gone.all(-1), gone.any(-1))
    assert 0 < gone.all(-1).sum() < B * T


# Word vectors from elsewhere

IDS = np.array([2, 5, 11], np.int64)


def table_of(model: Any) -> nn.Parameter:
    assert isinstance(model.embed, WordVectors)
    return model.embed.table.weight


@pytest.mark.parametrize("flags", [{}, {"embed_width": 10}], ids=str)
def test_vectors_are_put_into_their_rows(flags: Flags) -> None:
    model, untouched = reader_of("lstm", **flags), reader_of("lstm", **flags)
    vectors = numbers(3, 10 if flags else 24, dtype=torch.float32).numpy()
    put_vectors(model, IDS, vectors)
    assert torch.equal(table_of(model)[IDS], torch.from_numpy(vectors))
    others = [id for id in range(VOCAB) if id not in IDS]
    assert torch.equal(table_of(model)[others], table_of(untouched)[others])
    check_learning(ready(model).train())


def test_vectors_of_another_width_are_refused() -> None:
    vectors = np.zeros((3, 10), np.float32)
    with pytest.raises(SettingError, match=r"width 10, not 24: set model\.embed_width 10"):
        put_vectors(reader_of("lstm"), IDS, vectors)


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_vectors_are_not_learned(frozen: bool) -> None:
    flags = {"vectors": "some.txt", "vectors_frozen": True} if frozen else {}
    model = reader_of("average", **flags)
    assert table_of(model).requires_grad != frozen
    assert learned_count(model) == parameter_count(model) - frozen * VOCAB * 24
    model(tokens(B, T, vocab=VOCAB)).sum().backward()
    assert (table_of(model).grad is None) == frozen


def test_narrow_vectors_are_brought_to_the_width() -> None:
    model = ready(reader_of("transformer", embed_width=10, style="classic"))
    assert isinstance(model, Predictor)
    assert isinstance(model.embed, WordVectors)
    words = tokens(B, T, vocab=VOCAB)
    table, fit = table_of(model).detach().numpy(), model.embed.fit.weight.detach().numpy()
    assert table.shape == (VOCAB, 10)
    same(model.embed(words), table[words] @ fit.T * math.sqrt(24))
    assert reader_of("lstm", embed_width=24).embed.fit is None


# Lower precision


@every_predictor
def test_lower_precision(name: str, flags: Flags) -> None:
    model = in_use(name, **{"dropout": 0.0, "word_dropout": 0.0, **flags}).train()
    words = tokens(B, T, vocab=VOCAB)
    scores = model(words, MASK)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(words, MASK)
        low.float().logsumexp(-1).sum().backward()
    assert (low.float() - scores).abs().mean() < 0.05 * scores.abs().mean()
    for weight in model.parameters():
        assert weight.grad is None or (weight.grad.dtype == torch.float32 and weight.grad.isfinite().all())
