"""On a CUDA GPU: a Transformer's step by its own kernels, beside the one that it stands for."""

from importlib.util import find_spec
from typing import Any

import pytest
import torch

from glassformer.config.resolve import resolve
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import Request, RunningBatch
from glassformer.decoding.sampling import GREEDY
from glassformer.encoders.fused_step import CpuStep
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.build import build_language_model, build_seq2seq
from glassformer.models.modules import LanguageModel
from helpers.support import randomise

on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or find_spec("triton") is None, reason="there is no CUDA GPU with Triton here"
)
STYLES: list[dict[str, Any]] = [{}, {"style": "gpt2"}, {"model.kv_heads": 2}, {"model.activation": "relu2"}]


def model_of(**flags: Any) -> LanguageModel:
    heads = {} if flags.get("model") in ("lstm", "cnn") else {"model.heads": 4}
    settings = {"model.layers": 2, "model.width": 64, "model.context": 64, **heads, **flags}
    model = randomise(build_language_model(resolve({}, settings).model, vocab=50)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.5)
    return model


@on_gpu
@pytest.mark.parametrize("flags", STYLES, ids=str)
@pytest.mark.parametrize("rows", [1, 4, 5])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_it_gives_what_the_blocks_give(flags: dict[str, Any], rows: int, dtype: torch.dtype, within: float) -> None:
    model = model_of(**flags).cuda().to(dtype)
    assert isinstance(model.encoder, TransformerEncoder)
    fused = model.encoder._fused_step(torch.device("cuda"))
    assert fused is not None
    ids = torch.randint(50, (rows, 40), device="cuda")
    mask = torch.arange(37, device="cuda") < torch.tensor([37, 1, 20, 5, 9], device="cuda")[:rows, None]
    with torch.inference_mode():
        state, twin = model.init_state(rows, 64), model.init_state(rows, 64)
        for one in (state, twin):
            model.extend(ids[:, :37], one, mask)
            one.fix(64)
        state.fused = False  # type: ignore[attr-defined]
        for place in range(37, 40):
            x = model.embed(ids[:, place : place + 1])
            wanted, got = model.encoder.extend(x, state).float(), fused(x, twin).float()  # type: ignore[arg-type]
            assert (got - wanted).abs().max() < within * wanted.abs().max()


@on_gpu
@pytest.mark.parametrize("flags", [{"model": "lstm"}, {"model": "cnn"}, *STYLES], ids=str)
def test_a_gpu_writes_what_a_cpu_writes(flags: dict[str, Any]) -> None:
    """In float32, with seeds drawn alike, through graphs that are replayed, past the context, too."""
    model = model_of(**flags)
    requests = {
        0: Request([1, 7, 9], GREEDY, 90),
        1: Request([4], Sampling(0.9, 12), 70, seed=3),
        2: Request(list(range(20)), Sampling(1.1, top_p=0.9, repetition_penalty=1.2), 40, seed=4),
    }

    def written() -> dict[int, list[int]]:
        batch, texts = RunningBatch(model, 3, room=64), {row: list[int]() for row in requests}
        batch.join(requests)
        while tokens := batch.step():
            for row, one in tokens.items():
                texts[row].append(one.token)
        return texts

    by_cpu = written()
    model.cuda()
    assert written() == by_cpu


ODD: list[dict[str, Any]] = [
    {"model.activation": "tanh"},
    {"model.width": 60, "model.heads": 6, "model.kv_heads": 2},
    {"model.positions": "sine", "model.bias": True},
]
"""For the first two a GPU has no kernels."""


@pytest.mark.parametrize("flags", [*STYLES, {"style": "llama"}, *ODD], ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_cpu_takes_the_same_step_by_fewer_operations(flags: dict[str, Any], rows: int) -> None:
    model = model_of(**flags).double()
    ids = torch.randint(50, (rows, 12), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        state, twin = model.init_state(rows, 64), model.init_state(rows, 64)
        twin.fused = False  # type: ignore[attr-defined]
        for first, last in ((0, 5), (5, 6), (6, 7), (7, 11), (11, 12)):
            got, wanted = (model.extend(ids[:, first:last], one) for one in (state, twin))
            assert (got - wanted).abs().max() < 1e-12 * wanted.abs().max()
    assert isinstance(state.fused, CpuStep)  # type: ignore[attr-defined]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
@pytest.mark.parametrize("flags", [{}, {"model.norm": "layer", "model.bias": True}, {"model.kv_heads": 2}], ids=str)
def test_a_decoder_that_looks_at_a_memory(device: str, flags: dict[str, Any]) -> None:
    """Two sources, each with two texts."""
    settings = {"task": "translation", "model.layers": 2, "model.width": 64, "model.heads": 4, **flags}
    model = randomise(build_seq2seq(resolve({}, settings).model, source_vocab=50, target_vocab=50)).eval().to(device)
    source = torch.randint(30, (2, 7), device=device)
    mask = torch.arange(7, device=device) < torch.tensor([[7], [4]], device=device)
    ids = torch.randint(50, (4, 6), device=device)
    with torch.inference_mode():
        memory = model.encode(source, mask)
        state, twin = (model.init_state(memory, 16).expand_beams(2) for _ in range(2))
        twin.fused = False  # type: ignore[attr-defined]
        for place in range(6):
            if device == "cuda":
                state.fix(16)
                twin.fix(16)
            got, wanted = (model.extend(ids[:, place : place + 1], one) for one in (state, twin))
            assert (got - wanted).abs().max() < 1e-4 * wanted.abs().max()
    assert state.fused  # type: ignore[attr-defined]


def test_whoever_looks_inside_sees_the_ordinary_step() -> None:
    model = model_of()
    seen: list[torch.Tensor] = []
    hook = model.get_submodule("encoder.blocks.0.attend").register_forward_hook(lambda *call: seen.append(call[-1]))
    assert isinstance(model.encoder, TransformerEncoder)
    assert model.encoder._fused_step(torch.device("cpu")) is None
    hook.remove()
    assert model.encoder._fused_step(torch.device("cpu")) is not None


@pytest.mark.parametrize("flags", ODD[:2], ids=str)
def test_sizes_for_which_there_are_no_kernels(flags: dict[str, Any]) -> None:
    """A GPU takes the ordinary way."""
    encoder = model_of(**flags).encoder
    assert isinstance(encoder, TransformerEncoder)
    assert encoder._fused_step(torch.device("cuda")) is None


def test_parts_that_are_not_the_usual_ones() -> None:
    """They take the ordinary way."""
    for flags in ({"model.norm_order": "post"}, {"model.scores": "plain"}):
        encoder = model_of(**flags).encoder
        assert isinstance(encoder, TransformerEncoder)
        assert encoder._fused_step(torch.device("cpu")) is None
