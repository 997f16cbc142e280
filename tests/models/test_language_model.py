"""Language models of every encoder: they learn, they share what is tied, and the same seed gives the same weights."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.losses import vocabulary_loss
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import SettingError
from glassformer.config.presets import SIZES, STYLES
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.registry import BUILDERS
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.build import build_language_model, parameter_count
from glassformer.models.modules import LanguageModel
from helpers.support import differs, randomise, ready, same, tokens

B, T, VOCAB = 3, 7, 13
CAUSAL = [name for name in BUILDERS if ENCODERS[name].causal]
ORDERED = [name for name in CAUSAL if ENCODERS[name].ordered]
"""Those that look back further than the last token."""
every_encoder = pytest.mark.parametrize("name", CAUSAL)
one_hot_encoders = [name for name in CAUSAL if ENCODERS[name].any_width]


def model_of(name: str, seed: int = 0, vocab: int = VOCAB, **flags: Any) -> LanguageModel:
    used = used_keys(name)
    small = {"width": 24, "layers": 2, "heads": 3, "window": 4, "context": 17}
    chosen = {"encoder": name, **{key: value for key, value in small.items() if key in used}, **flags}
    settings = resolve({}, {f"model.{key}": value for key, value in chosen.items()}).model
    return build_language_model(settings, vocab=vocab, seed=seed)


@every_encoder
def test_embed_encode_score(name: str) -> None:
    model = ready(model_of(name))
    words = tokens(B, T, vocab=VOCAB)
    features = model.encoder(model.embed(words))
    same(model.features(words), features)
    scores = model(words)
    assert scores.shape == (B, T, VOCAB)
    same(scores, features.detach().numpy() @ model.head.weight.detach().numpy().T)


@every_encoder
@pytest.mark.parametrize("embed", ["vectors", "onehot"])
def test_pieces_and_padding(name: str, embed: str) -> None:
    if embed == "onehot" and name not in one_hot_encoders:
        with pytest.raises(SettingError, match="onehot"):
            model_of(name, embed=embed)
        return
    model = randomise(model_of(name, embed=embed)).eval()  # one-hot vectors are single precision
    words = tokens(B, T, vocab=VOCAB)
    mask = torch.arange(T) < torch.tensor([T, 2, 3])[:, None]
    features = model.features(words)
    same(model.features(words, mask)[mask], features[mask], 1e-4)
    state = model.init_state(B, T)
    pieces = [model.extend(piece, state) for piece in words.split([3, 1, 3], 1)]
    same(torch.cat(pieces, 1), features, 1e-4)
    state = model.init_state(B, T + 1)
    model.extend(words, state, mask)
    after = model.extend(words[:, :1], state)
    for row, length in enumerate((T, 2, 3)):
        alone = torch.cat([words[row : row + 1, :length], words[row : row + 1, :1]], 1)
        same(after[row, 0], model.features(alone)[0, -1], 1e-4)


@every_encoder
def test_the_answer_cannot_be_read(name: str) -> None:
    model = ready(model_of(name))
    words = tokens(B, T, vocab=VOCAB)
    other = words.clone()
    other[:, 4] = (words[:, 4] + 1) % VOCAB
    before, after = model(words), model(other)
    assert torch.equal(before[:, :4], after[:, :4])
    assert differs(before[:, 4], after[:, 4])


@pytest.mark.parametrize("flags", [{}, *({"style": style} for style in STYLES)], ids=str)
def test_the_mask_can_be_taken_off_a_transformer(flags: dict[str, Any]) -> None:
    model = ready(model_of("transformer", causal_mask=False, **flags))
    assert not model.encoder.causal
    words = tokens(B, T, vocab=VOCAB)
    other = words.clone()
    other[:, 4] = (words[:, 4] + 1) % VOCAB
    assert differs(model(words)[:, :4], model(other)[:, :4])


def overfit(model: LanguageModel, steps: int, rate: float) -> float:
    """The loss per token after some updates on one batch of random tokens, which can only be learned by heart."""
    text = tokens(4, T + 1, vocab=VOCAB, seed=5)
    text[:, 0] = torch.arange(4)  # the first token says which row this is
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = vocabulary_loss(model.features(text[:, :-1]).flatten(0, 1), model.head.weight, text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        *((name, {}) for name in ORDERED),
        *((name, {"embed": "onehot"}) for name in ORDERED if ENCODERS[name].any_width),
        *(("transformer", {"style": style}) for style in STYLES),
    ],
    ids=str,
)
def test_one_batch_is_overfitted(name: str, flags: dict[str, Any]) -> None:
    flags = {"window": 8, **flags} if name == "window" else flags
    loss = overfit(model_of(name, **flags), steps=120, rate=1e-2)
    assert loss < 0.1, f"{loss} of {math.log(VOCAB)}"


@every_encoder
@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_are_one(name: str, tied: bool) -> None:
    model = model_of(name, tied=tied)
    assert isinstance(model.embed, WordVectors)
    table = model.embed.table.weight
    assert (model.head.weight is table) == tied
    assert parameter_count(model) == parameter_count(model.encoder) + table.numel() * (1 if tied else 2)
    model.head(torch.ones(1, model.encoder.width)).sum().backward()
    assert (table.grad is not None) == tied


@every_encoder
def test_tied_is_the_default(name: str) -> None:
    model = model_of(name)
    assert isinstance(model.embed, WordVectors)
    assert model.head.weight is model.embed.table.weight


@pytest.mark.parametrize("name", one_hot_encoders)
def test_one_hot_has_nothing_to_share(name: str) -> None:
    model = model_of(name, embed="onehot")
    assert isinstance(model.embed, OneHot)
    assert model.embed.width == VOCAB
    assert parameter_count(model) == parameter_count(model.encoder) + model.head.weight.numel()


@every_encoder
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    first, again, other = (model_of(name, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(differs(first[key], other[key]) for key in first)


@every_encoder
def test_building_leaves_the_callers_random_numbers_alone(name: str) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    model_of(name)
    assert torch.equal(torch.rand(3), expected)


@every_encoder
def test_the_weights_do_not_depend_on_the_callers_random_numbers(name: str) -> None:
    first = model_of(name).state_dict()
    torch.manual_seed(11)
    again = model_of(name).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


@every_encoder
def test_save_and_load(name: str) -> None:
    model, other = randomise(model_of(name)), model_of(name, seed=1)
    words = tokens(B, T, vocab=VOCAB)
    assert differs(model(words), other(words))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(words), other.eval()(words))


@pytest.mark.parametrize("size", ["nano", "tiny", "small"])
def test_models_of_one_size_are_comparable(size: str) -> None:
    """The encoders' own weights: what the vocabulary adds is another question."""
    counts = {}
    for name in ORDERED:
        settings = resolve({}, {"model": name, "size": size}).model
        with torch.device("meta"):
            model = build_language_model(settings, vocab=97)
        counts[name] = parameter_count(model.encoder)
    usual = counts["transformer"]
    assert all(0.7 < count / usual < 1.3 for count in counts.values()), counts


def test_whole_tiny_models_are_comparable_over_characters() -> None:
    counts = {name: parameter_count(model_of_size(name, "tiny", vocab=97)) for name in ORDERED}
    assert max(counts.values()) < 1.3 * min(counts.values()), counts


def model_of_size(name: str, size: str, vocab: int) -> LanguageModel:
    return build_language_model(resolve({}, {"model": name, "size": size}).model, vocab=vocab)


def test_larger_sizes_are_larger() -> None:
    for name in ORDERED:
        settings = [resolve({}, {"model": name, "size": size}).model for size in SIZES]
        weights = [one.layers * one.width**2 for one in settings]
        assert weights == sorted(set(weights))


def test_the_lectures_nano() -> None:
    model = model_of_size("transformer", "nano", vocab=65)
    assert isinstance(model.encoder, TransformerEncoder)
    assert len(model.encoder.blocks) == 3
    assert model.encoder.blocks[0].attend.heads == 3
    assert model.encoder.width == 48


def test_parameters_written_out() -> None:
    """Counted by hand: gpt2's block is 12 d² + 13 d, its norm 2 d, its tables (V + context) d."""
    d, layers, context = 24, 2, 17
    model = model_of("transformer", style="gpt2")
    assert parameter_count(model) == layers * (12 * d * d + 13 * d) + 2 * d + (VOCAB + context) * d
    lstm = model_of("lstm")
    assert parameter_count(lstm) == layers * (8 * d * d + 8 * d) + layers * 2 * d + VOCAB * d


def test_word_vectors_are_scaled_in_the_classic_style() -> None:
    model = ready(model_of("transformer", style="classic"))
    words = tokens(B, T, vocab=VOCAB)
    assert isinstance(model.embed, WordVectors)
    same(model.embed(words), model.embed.table(words) * math.sqrt(24))
    plain = ready(model_of("transformer"))
    assert isinstance(plain.embed, WordVectors)
    same(plain.embed(words), plain.embed.table(words))


@every_encoder
def test_dropout_reaches_the_model_in_training_only(name: str) -> None:
    model = ready(model_of(name, dropout=0.3))
    words = tokens(B, T, vocab=VOCAB)
    assert torch.equal(model(words), model(words))
    model.train()
    assert differs(model(words), model(words))


@every_encoder
def test_word_vectors_are_dropped_once(name: str) -> None:
    """A Transformer drops out after it has added positions; the others right after the table."""
    model = model_of(name, dropout=0.3)
    assert isinstance(model.embed, WordVectors)
    before_blocks = [model.embed.dropout.p]
    if isinstance(model.encoder, TransformerEncoder):
        before_blocks.append(model.encoder.dropout.p)
    assert sorted(before_blocks) == sorted([0.3] + [0.0] * (len(before_blocks) - 1))


@pytest.mark.parametrize(
    ("name", "flags"),
    [*((name, {}) for name in CAUSAL), *(("transformer", {"style": style, "residual": False}) for style in STYLES)],
    ids=str,
)
def test_lower_precision(name: str, flags: dict[str, Any]) -> None:
    """Under autocast: close to full precision, whole and in pieces, gradients and all, and without a warning."""
    model = randomise(model_of(name, **flags))
    words = tokens(B, T, vocab=VOCAB)
    features = model.features(words)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model.features(words)
        with torch.no_grad():
            state = model.init_state(B, T)
            pieces = torch.cat([model.extend(piece, state) for piece in words.split([3, 1, 3], 1)], 1)
            after_padding = model.features(words, torch.arange(T) < torch.tensor([T, 2, 3])[:, None])
        model(words).float().logsumexp(-1).sum().backward()
    for other in (low, pieces, after_padding[:1]):
        assert (other.float() - features[: len(other)]).abs().mean() < 0.03 * features.abs().mean()
    for weight in model.parameters():
        assert weight.grad is None or (weight.grad.dtype == torch.float32 and weight.grad.isfinite().all())


def test_features_of_a_longer_text_than_the_context() -> None:
    """Rotary positions and recurrent states know no end."""
    for name in CAUSAL:
        model = ready(model_of(name, context=5))
        assert model.features(tokens(1, 11, vocab=VOCAB)).shape == (1, 11, 24)
