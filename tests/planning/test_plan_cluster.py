"""Parameters that others have published, and trainings on GPUs that nobody has."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import SettingError
from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import flatten
from glassformer.planning.build import _border
from glassformer.planning.setup import from_data
from glassformer.planning.sharding import ALL, COPIED, Cluster, LayerwiseMemory, Sharding
from glassformer.planning.training_step import StepDevice
from glassformer.verbs.plan import plan
from helpers.tables import write_table
from helpers.translating import mirrored

GPT2_SMALL = {
    "style": "gpt2", "model.layers": 12, "model.heads": 12, "model.width": 768, "model.context": 1024,
    "vocab_size": 50257,
}  # fmt: skip
LLAMA2_7B = {
    "style": "llama", "model.layers": 32, "model.heads": 32, "model.width": 4096, "model.hidden": 11008,
    "model.tied": False, "vocab_size": 32000, "model.context": 4096,
}  # fmt: skip
LLAMA3_70B = {
    "style": "llama", "model.layers": 80, "model.heads": 64, "model.kv_heads": 8, "model.width": 8192,
    "model.hidden": 28672, "model.tied": False, "vocab_size": 128256, "model.context": 8192,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "parameters"),
    [(GPT2_SMALL, 124_439_808), (LLAMA2_7B, 6_738_415_616)],
    ids=["gpt2", "llama-2-7b"],
)
def test_published_numbers_of_parameters(shape: dict[str, Any], parameters: int) -> None:
    found = plan(training_tokens=10**9, optimizer="adamw", gpus=8, **shape)
    assert found.parameters == sum(found.parts.values()) == parameters
    copied = found.to_dict()["paper"]["ways"][0]
    assert copied["weights"] == pytest.approx(4 * parameters, rel=1e-6)
    states = copied["weights"] + copied["gradients"] // 2 + copied["optimiser"]  # half: buckets hold gradients again
    assert states == pytest.approx(16 * parameters, rel=1e-6)


def test_a_translator_planned_on_gpus_has_the_defaults_of_a_gpu(tmp_path: Path) -> None:
    pairs = write_table(tmp_path / "pairs.csv", mirrored(20), ("source", "target"))
    flags = {"data.path": str(pairs), "model.encoder": "lstm", "training.device": "cpu"}
    here, gpus = (from_data(flags, None, gpus=count).config for count in (None, 2))
    assert here.model.width < gpus.model.width == encoder_info("lstm").starts[TRANSLATION]["model.width"]


@pytest.mark.slow
def test_70_billion_parameters_on_96_gpus() -> None:
    """Of 80 GB each. On 64 they do not fit: embedding and head, 8 GiB of each kind, come together for a whole step."""
    found = plan(training_tokens=10**12, optimizer="adamw", gpus=96, device_memory=80, batch_size=96, **LLAMA3_70B)
    assert found.parameters == sum(found.parts.values()) == 70_553_706_496
    assert found.paper is not None
    assert found.paper.least is not None
    way, again = found.paper.least
    assert (way.name, again) == (ALL, True)
    few = plan(training_tokens=10**12, optimizer="adamw", gpus=8, device_memory=80, batch_size=8, **LLAMA3_70B)
    assert few.paper is not None
    assert few.paper.least is None
    needed = few.paper.gpus_needed
    assert needed is not None
    assert 64 < needed <= 96
    assert f"It would take {needed} of them" in " ".join(few.words)


@pytest.mark.slow
def test_floating_point_operations_are_six_for_each_weight_and_token() -> None:
    """And for attention twelve for each layer, width and token before it, as Kaplan et al. 2020 count."""
    found = plan(training_tokens=10**9, gpus=8, batch_size=8, **LLAMA2_7B)
    tables = found.parts["word vectors"]
    assert found.work.products == found.parameters - tables - found.parts["norms"] + 32 * 2 * 4096 * 4096
    assert found.work.flops == 6 * found.work.products * 8 * 4096
    assert found.work.updates == -(-(10**9) // (8 * 4096))
    assert found.paper is not None
    assert found.paper.least is not None
    more = 4 / 3 if found.paper.least[1] else 1
    assert found.seconds == pytest.approx(more * found.work.updates * found.work.flops / (8 * 400e12))


@pytest.mark.slow
def test_more_examples_take_more_activations_and_no_more_states() -> None:
    one, two = (plan(training_tokens=10**9, gpus=4, batch_size=4 * rows, **GPT2_SMALL) for rows in (1, 2))
    assert one.paper is not None
    assert two.paper is not None
    for less, more in zip(one.paper.ways, two.paper.ways, strict=True):
        assert less.total() - less.activations == more.total() - more.activations
        assert less.activations < more.activations < 2 * less.activations  # copies of weights do not double


SCALED = LayerwiseMemory(
    weights=4000,
    block=300,
    gradients=4000,
    optimiser=8000,
    average=0,
    rest=50,
    layer=100,
    copies=20,
    border=7,
    layers=10,
)


def on_paper(found: LayerwiseMemory, gpus: int) -> Cluster:
    return Cluster(gpus, memory=80.0, rows=1, needs=found, flops=400.0)


def ways(found: LayerwiseMemory, gpus: int) -> list[Sharding]:
    return on_paper(found, gpus).ways


def test_what_is_shared_is_divided() -> None:
    found = {way.name: way for way in ways(SCALED, 8)}
    assert [found[COPIED].weights, found[COPIED].gradients, found[COPIED].optimiser] == [4000, 8000, 8000]
    # a share, what lies outside the layers, two of these in half precision
    assert found[ALL].weights == 500 + 1000 + 2 * 300 // 2
    assert found[ALL].gradients == 500 + 1000 + 300  # whole until they are exchanged: those outside the layers, and one
    in_pieces = {way.name: way for way in replace(on_paper(SCALED, 8), pieces=2).ways}
    assert in_pieces[ALL].gradients == 4000 + 300, "all are whole until the last piece"
    assert found[COPIED].activations == 50 + 10 * 120
    assert found[ALL].activations == 50 + 10 * 100 + 20
    assert found[COPIED].again == 50 + 10 * 7 + 120
    assert found[ALL].again == 1000, "copies of gradients, to be sent, where activations were"
    (alone, *_) = ways(SCALED, 1)
    assert alone.gradients == 4000, "one GPU exchanges nothing"


def test_the_least_sharing_and_the_fewest_gpus() -> None:
    def on(gpus: int, room: int) -> Cluster:
        return Cluster(gpus, room / 0.9 / 2**30 + 1e-9, 1, SCALED, 400.0)

    assert on(8, 10**6).least == (ways(SCALED, 8)[0], False)
    assert on(8, 20_300).least == (ways(SCALED, 8)[0], True)
    assert on(8, 5650).least == (ways(SCALED, 8)[1], True)
    assert on(8, 20_300).seconds(3e15) == pytest.approx(4 / 3 * on(8, 10**6).seconds(3e15))
    assert on(8, 4000).least is None
    needed = on(8, 4000).gpus_needed
    assert needed is not None
    assert ways(SCALED, needed)[1].total(again=True) <= 4000 < ways(SCALED, needed - 1)[1].total(again=True)
    assert on(8, 1500).gpus_needed is None, "a gathered block is as large on any number of GPUs"


def test_what_is_exchanged() -> None:
    found = {way.name: way for way in ways(SCALED, 8)}
    assert found[COPIED].exchanged == 2 * 4000 * 7 // 8  # a ring: summed on the way there, handed on the way back
    assert found[ALL].exchanged == (10 * 300 + 1000 + 4000) * 7 // 8  # layers twice, in half precision, and the rest
    with_muon = {way.name: way for way in replace(on_paper(SCALED, 8), orthogonalised=2400).ways}
    assert with_muon[ALL].exchanged == found[ALL].exchanged + 2 * 300 * 7 // 8  # a share, there and back
    assert with_muon[COPIED].exchanged == found[COPIED].exchanged
    (alone, *_) = ways(SCALED, 1)
    assert alone.exchanged == 0


@pytest.mark.slow
def test_time_and_cost_of_an_exchange_that_is_slower_than_computing() -> None:
    quick, slow = (
        plan(training_tokens=10**9, gpus=1024, batch_size=1024, bandwidth=rate, price=2.0) for rate in (1e6, 0.01)
    )
    assert quick.seconds is not None
    assert slow.seconds is not None
    assert slow.seconds > 10 * quick.seconds
    assert "from others in" in " ".join(slow.words)
    assert slow.cost == pytest.approx(2.0 * 1024 * slow.seconds / 3600)
    assert slow.to_dict()["tokens_per_day"] == pytest.approx(86400 * slow.work.seen / slow.seconds)


def test_a_batch_that_cannot_be_shared() -> None:
    with pytest.raises(SettingError, match=r"batch_size 6 is too small for 8 GPUs .*: 8 or more"):
        plan(training_tokens=10**6, gpus=8, batch_size=6)


@pytest.mark.parametrize("model", ["lstm", "cnn", "window"])
def test_models_whose_layers_are_not_alike(model: str) -> None:
    found = plan(training_tokens=10**7, gpus=2, model=model)
    assert found.paper is not None
    assert found.paper.least is not None
    assert found.seconds is not None


@pytest.mark.parametrize(
    ("data", "bytes_each", "tokens"),
    [("digits", 2, 4), ("opinions:rows=80", 4, None), ("reverse-pairs:rows=200", 4, None)],
    ids=str,
)
def test_what_goes_into_a_layer(data: str, bytes_each: int, tokens: int | None) -> None:
    """Patches of an image, and not its colours; source and target of a translation, and not one of them."""
    planned = from_data(flatten({"data.path": data, "size": "nano", "model": "transformer"}), None, gpus=1)
    found = _border(planned, planned.piece, StepDevice(torch.device("cuda"), "bf16", stand_in=True))
    places = (0, 2) if "pairs" in data else (0,)
    long = tokens or sum(planned.piece[place].shape[1] for place in places)
    assert found == bytes_each * planned.batch * long * planned.config.model.width


@pytest.mark.slow
def test_data_on_paper() -> None:
    found = plan("reverse-pairs:rows=200", gpus=4, device_memory=1, size="nano")
    assert found.config.task == "translation"
    assert found.paper is not None
    assert found.work.tokens > 1000
