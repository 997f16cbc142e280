"""What is trained of a model that was trained before, and how fast: by name, and by the size of the first update."""

import pytest
import torch
from torch import nn

from glassformer.config.presets import LANGUAGE_MODEL
from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model, build_predictor, build_seq2seq
from glassformer.training.optimiser import Optimiser, distances, freeze, is_new, rates
from helpers.running import CAUSAL, labelled, tiny
from helpers.settings import training_settings
from helpers.translating import translating

LAYERS = 3


def reader(encoder: str = "transformer", **more: object) -> nn.Module:
    sizes = {"model__layers": LAYERS} if encoder != "average" else {}
    settings = resolve({}, labelled(encoder, **{**sizes, **more}), {"task": "classification"})
    return build_predictor(settings.model, outputs=2, vocab=11)


def translator(encoder: str = "transformer") -> nn.Module:
    settings = translating(encoder, model__layers=2, model__decoder_layers=3, model__tied=False, model__shared=False)
    config = resolve({}, {**settings, "task": "translation"})
    return build_seq2seq(config.model, source_vocab=11, target_vocab=11)


def trained(model: nn.Module) -> set[str]:
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


@pytest.mark.parametrize("encoder", ["transformer", "lstm", "gru", "rnn", "cnn"])
def test_layers_are_counted_from_the_head_down(encoder: str) -> None:
    far = distances(reader(encoder))
    assert set(far.values()) == set(range(LAYERS + 2))
    assert {name for name, distance in far.items() if distance == 0} >= {"head.output.weight", "head.output.bias"}
    assert far["embed.table.weight"] == LAYERS + 1
    first = {"transformer": "encoder.blocks.0.attend.query.weight", "cnn": "encoder.convolutions.0.map.weight"}
    name = first.get(encoder, "encoder.layers.cell.weight_ih_l0")
    if name in far:
        assert far[name] == LAYERS


def test_both_ways_and_every_encoder() -> None:
    far = distances(reader("lstm", model__bidirectional=True))
    assert far["encoder.layers.cell.weight_hh_l2_reverse"] == far["encoder.layers.cell.weight_hh_l2"] == 1
    assert far["encoder.layers.first.0"] == LAYERS + 1
    for encoder in CAUSAL:
        config = resolve({}, tiny(encoder, model__tied=False), {"task": LANGUAGE_MODEL})
        far = distances(build_language_model(config.model, vocab=11))
        assert far["head.weight"] == 0
        assert far["embed.table.weight"] == max(far.values()) > 0


def test_the_sides_of_a_translation_have_tops_of_their_own() -> None:
    far = distances(translator())
    assert far["encoder.blocks.1.attend.query.weight"] == far["decoder.blocks.2.cross_attention.query.weight"] == 1
    assert (far["embed_source.table.weight"], far["embed_target.table.weight"], far["head.weight"]) == (3, 4, 0)


@pytest.mark.parametrize("encoder", ["transformer", "lstm", "cnn", "window"])
@pytest.mark.parametrize("count", [0, 1, 2, None])
def test_only_the_last_blocks_are_trained(encoder: str, count: int | None) -> None:
    model = reader(encoder)
    far = distances(model)
    before = trained(model)
    freeze(model, count)
    head = {name for name in before if name.startswith("head.")}
    if count is None:
        assert trained(model) == before
    elif count == 0:
        assert trained(model) == head
    else:
        assert trained(model) == {name for name in before if far[name] <= count} > head


def test_what_is_new_is_trained_and_a_tied_head_is_a_head() -> None:
    model = translator()
    freeze(model, 0, ["decoder.blocks.*.cross_attention", "embed_target"])
    assert trained(model) == {
        name
        for name in distances(model)
        if name.startswith(("head.", "embed_target.")) or (".cross_attention." in name and "around" not in name)
    }
    assert not is_new("decoder.blocks.1.cross_attentions.weight", ["decoder.blocks.*.cross_attention"])
    config = resolve({}, tiny("transformer", model__tied=True), {"task": LANGUAGE_MODEL})
    tied = build_language_model(config.model, vocab=11)
    freeze(tied, 0)
    assert trained(tied) == {"embed.table.weight"}


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd", "momentum"])
def test_each_block_learns_so_much_slower_than_the_one_above(optimizer: str) -> None:
    """The same gradient everywhere: the first update of a weight is the rate times what its optimiser makes of it."""
    decay = 0.5
    updates = []
    for layer_decay in (1.0, decay):
        model = reader()
        settings = training_settings(optimizer=optimizer, lr=1e-2, weight_decay=0.0, layer_decay=layer_decay)
        optimiser = Optimiser(model, settings, new_parts=["encoder.blocks.*.feed.output"])
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        for number, weight in enumerate(model.parameters()):
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
        optimiser.step(0.5)
        now = dict(model.named_parameters())
        updates.append({name: float((now[name].detach() - before[name]).norm()) for name in now})
    plain, slower = updates
    for name, distance in distances(model).items():
        part = 1.0 if ".feed.output." in name else decay**distance
        assert slower[name] == pytest.approx(part * plain[name], rel=1e-3), name
        assert plain[name] > 0
    assert rates(model, decay)["encoder.blocks.0.attend.query.weight"] == decay**LAYERS


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd"])
def test_decay_is_slower_too_and_leaves_what_is_frozen(optimizer: str) -> None:
    model = reader()
    freeze(model, 1)
    settings = training_settings(optimizer=optimizer, lr=0.1, weight_decay=0.5, layer_decay=0.5)
    optimiser = Optimiser(model, settings)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        if weight.requires_grad:
            weight.grad = torch.zeros_like(weight)
    optimiser.step(1.0)
    last, below = "encoder.blocks.2.attend.query.weight", "encoder.blocks.1.attend.query.weight"
    now = dict(model.named_parameters())
    assert torch.equal(now[below], before[below])
    torch.testing.assert_close(now[last], before[last] * (1 - 0.1 * 0.5 * 0.5))
    torch.testing.assert_close(now["head.output.weight"], before["head.output.weight"] * (1 - 0.1 * 0.5))
    assert not any(name.startswith((below, "embed")) for name in optimiser.state())
