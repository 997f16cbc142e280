"""Intervene: what is changed is changed wherever it is computed; what is not stays bit for bit; hooks go."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.bricks.attention import Memory, attention_weights
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.decoding.beam import Marks, beam_search
from glassformer.decoding.options import Sampling, Search
from glassformer.decoding.running import Request, RunningBatch
from glassformer.encoders.base import Encoder
from glassformer.inspection.capture import capture
from glassformer.inspection.intervene import intervene
from glassformer.models.build import build_predictor
from helpers.cases import CAUSAL, WITH_MEMORY, Flags, build, label, small
from helpers.support import differs, numbers, randomise, same, tokens
from helpers.translators import translator
from helpers.watching import MASK, VOCAB, B, S, T, language_model, no_hooks

FEW: list[Flags] = [
    *(small(name) for name in ("average", "window", "cnn", "rnn", "lstm", "gru")),
    small("lstm", cells=19, layers=1),
    small("transformer", style="llama"),
    small("transformer", style="gpt2"),
    small("transformer", style="classic", positions="onehot"),
    *[flags for flags in CAUSAL if flags.get("scores") in ("shared", "bilinear")][:2],
]
MEMORIES: list[Flags] = [
    next(flags for flags in WITH_MEMORY if flags["encoder"] == "transformer"),
    next(flags for flags in WITH_MEMORY if flags["encoder"] == "lstm" and flags.get("input_feeding")),
    next(flags for flags in WITH_MEMORY if flags["encoder"] == "gru" and not flags.get("input_feeding")),
]


def untouched(module: nn.Module) -> bool:
    return no_hooks(module) and not any(
        {"extend", "init_state", "look_at"} & vars(one).keys() for one in module.modules()
    )


def names_of(encoder: Encoder, x: Tensor, memory: Memory | None = None) -> list[str]:
    with capture(encoder) as seen:
        encoder(x, memory=memory)
    return [name for name in seen if name != "logits"]


def in_pieces(encoder: Encoder, x: Tensor, memory: Memory | None = None, first: int = 2) -> Tensor:
    """The first tokens at once, the others one by one."""
    state = encoder.init_state(len(x), x.shape[1], memory)
    pieces = [x[:, :first], *x[:, first:].split(1, 1)]
    return torch.cat([encoder.extend(piece, state) for piece in pieces], 1)


@pytest.mark.slow
@pytest.mark.parametrize("flags", FEW, ids=label)
def test_every_name_of_every_encoder(flags: Flags) -> None:
    check_every_name(build(flags, causal=True), None)


@pytest.mark.slow
@pytest.mark.parametrize("flags", MEMORIES, ids=label)
def test_every_name_of_every_decoder(flags: Flags) -> None:
    encoder = build(flags, causal=True, memory_width=flags.get("width"))
    check_every_name(encoder, Memory(numbers(B, S, encoder.width, seed=1), None))


@torch.inference_mode()
def check_every_name(encoder: Encoder, memory: Memory | None) -> None:
    x, place = numbers(B, T, encoder.width), 3
    before, pieces = encoder(x, memory=memory), in_pieces(encoder, x, memory)
    names = names_of(encoder, x, memory)
    assert len(names) > 1
    with intervene(encoder, dict.fromkeys(names, torch.clone)):
        assert torch.equal(encoder(x, memory=memory), before)
        same(in_pieces(encoder, x, memory), pieces)
    effects = 0
    for name in names:
        with intervene(encoder, {name: lambda tensor: 0.5 * tensor + 0.1}):
            all_of_it = encoder(x, memory=memory)
            same(in_pieces(encoder, x, memory), all_of_it)
        if name == "summary.output":
            continue
        with intervene(encoder, {name: gf.Change(lambda tensor: 0.5 * tensor + 0.1, [place])}):
            one = encoder(x, memory=memory)
            same(in_pieces(encoder, x, memory, first=place + 2), one)
        of_memory = (
            name.startswith("summary") or ("cross" in name and "key" in name) or "cross_attention.values" in name
        )
        assert of_memory or torch.equal(one[:, :place], before[:, :place]), name
        effects += differs(one[:, place:], before[:, place:]) and differs(all_of_it, before)
    assert effects > len(names) / 2
    assert untouched(encoder)
    assert torch.equal(encoder(x, memory=memory), before)


# --- against what one would write by hand ---

REPLACED: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "average": lambda encoder, x, y: y,
    "window": lambda encoder, x, y: encoder._mlp(encoder.read(y)),
    "cnn": lambda encoder, x, y: encoder(y),
    "transformer": lambda encoder, x, y: encoder(y),
    "rnn": lambda encoder, x, y: encoder(y),
    "lstm": lambda encoder, x, y: encoder(y),
    "gru": lambda encoder, x, y: encoder(y),
}


@pytest.mark.parametrize("name", REPLACED)
def test_another_input_is_the_pass_over_that_input(name: str) -> None:
    encoder = build(small(name), causal=True)
    x, other = numbers(B, T, encoder.width), numbers(B, T, encoder.width, seed=1)
    mixed = x.clone()
    mixed[:, [1, 4]] = other[:, [4, 1]]
    with intervene(encoder, {"input": gf.replace(other[:, [4, 1]], positions=[1, 4])}):
        same(encoder(x), REPLACED[name](encoder, x, mixed))
    with intervene(encoder, {"input": gf.replace(other)}):
        same(encoder(x), REPLACED[name](encoder, x, other))
        same(in_pieces(encoder, x), REPLACED[name](encoder, x, other))
    with intervene(encoder, {"output": gf.zero(positions=[2])}):
        after = encoder(x)
    assert (after[:, 2] == 0).all()
    keep = [0, 1, 3, 4, 5]
    assert torch.equal(after[:, keep], encoder(x)[:, keep])


def test_a_head_at_half_its_strength() -> None:
    """The same as half of its columns in W^O; in one pass, and written token by token."""
    model, ids = language_model(heads=4).double(), tokens(B, T, vocab=VOCAB)
    plain = model(ids)
    dial = {"encoder.blocks.1.attend.mixed": gf.scale(0.5, heads=[2])}
    with intervene(model, dial):
        whole = model(ids)
        written = model.head(in_pieces_of(model, ids))
    model.encoder.blocks[1].attend.output.weight.data[:, 8:12] *= 0.5
    same(whole, model(ids))
    same(written, model(ids))
    assert differs(whole, plain)


def in_pieces_of(model: Any, ids: Tensor) -> Tensor:
    state = model.init_state(len(ids), ids.shape[1])
    return torch.cat([model.extend(piece, state) for piece in ids.split([2, *[1] * (ids.shape[1] - 2)], 1)], 1)


def test_weights_of_attention_by_the_written_out_formula() -> None:
    model, ids = language_model(heads=2).double(), tokens(1, T, vocab=VOCAB)
    attend = model.encoder.blocks[0].attend
    first = torch.eye(T, dtype=torch.float64)[0]
    with capture(model) as before:
        model(ids)
    path = "encoder.blocks.0.attend"
    with intervene(model, {f"{path}.weights": gf.replace(first, positions=[4], heads=[1])}), capture(model) as seen:
        model(ids)
    mixed = seen[f"{path}.mixed"]
    same(mixed[0, 1, 4], before[f"{path}.values"][0, 1, 0])
    assert torch.equal(mixed[:, 0], before[f"{path}.mixed"][:, 0])
    assert torch.equal(mixed[:, 1, [0, 1, 2, 3, 5]], before[f"{path}.mixed"][:, 1, [0, 1, 2, 3, 5]])
    with intervene(model, {f"{path}.scores": gf.scale(0.0)}), capture(model) as flat:
        model(ids)
    mean = before[f"{path}.values"].cumsum(2) / torch.arange(1, T + 1).view(1, 1, T, 1)
    same(flat[f"{path}.mixed"], mean)
    queries, keys = before[f"{path}.queries"], before[f"{path}.keys"]
    past = torch.ones(T, T, dtype=torch.bool).tril()
    same(before[f"{path}.weights"], attention_weights(queries, keys, past, scale=attend.scale))


def test_a_state_goes_on_to_the_next_token() -> None:
    """An LSTM whose state was taken away at a token reads on as one that begins there."""
    encoder = build(small("lstm", layers=1), causal=True)
    encoder.layers.first[0].data.zero_()
    encoder.layers.first[1].data.zero_()
    x = numbers(B, T, encoder.width)
    with intervene(encoder, {"layers.0.states": gf.zero(positions=[2]), "layers.0.cells": gf.zero(positions=[2])}):
        after = encoder(x)
    assert torch.equal(after[:, :2], encoder(x)[:, :2])
    assert (after[:, 2] == 0).all()
    same(after[:, 3:], encoder(x[:, 3:]))
    shut = {"layers.0.gates.i": gf.zero(positions=[3]), "layers.0.gates.f": gf.replace(1.0, positions=[3])}
    with intervene(encoder, shut), capture(encoder) as seen:
        after = encoder(x)
    cells = seen["layers.0.cells"][:, 2]
    same(after[:, 3] / torch.tanh(cells), seen["layers.0.gates.o"][:, 3])


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_both_ways_and_padding(name: str) -> None:
    encoder = build(small(name, bidirectional=True), causal=False)
    x = numbers(B, T, encoder.width)
    plain = encoder(x, MASK)
    with intervene(encoder, {"layers.*.states": torch.clone, "layers.*.back.states": torch.clone}):
        assert torch.equal(encoder(x, MASK), plain)
    with intervene(encoder, {"layers.1.back.states": gf.zero(positions=[2])}):
        after = encoder(x, MASK)
    assert torch.equal(after[:, 3:], plain[:, 3:])
    half = encoder.width // 2
    assert torch.equal(after[..., :half], plain[..., :half])
    assert (after[:, 2, half:] == 0).all()
    assert differs(after[:2, :2], plain[:2, :2])


# --- whole models ---


@pytest.mark.parametrize("encoder", ["transformer", "gru", "cnn"])
@pytest.mark.parametrize("name", ["embed.vectors", "encoder.input", "encoder.output", "logits"])
def test_positions_of_texts_of_different_lengths_that_are_written_at_once(encoder: str, name: str) -> None:
    model = language_model(encoder, **({"heads": 2} if encoder == "transformer" else {}))
    change = gf.Change(lambda tensor: -9 * tensor.flip(-1), positions=[4, 5])
    prompts = [[1, 2, 3, 4, 5, 6], [3], [7, 2]]

    def write(batch: list[list[int]]) -> list[list[int]]:
        running = RunningBatch(model, len(batch), 12)
        texts = [list(prompt) for prompt in batch]
        greedy = Sampling(temperature=0.0)
        running.join({number: Request(prompt, greedy, 6) for number, prompt in enumerate(batch)})
        while step := running.step():
            for number, one in step.items():
                texts[number].append(one.token)
        return texts

    with intervene(model, {name: change}):
        together = write(prompts)
        for text, prompt in zip(together, prompts, strict=True):
            assert write([prompt]) == [text]
            scores = model(torch.tensor([text[:-1]]))[0]
            assert scores.argmax(-1).tolist()[len(prompt) - 1 :] == text[len(prompt) :]
    assert write(prompts) != together
    assert untouched(model)


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (("transformer", "transformer"), "decoder.blocks.0.cross_attention.output"),
        (("transformer", "transformer"), "decoder.blocks.0.cross_attention.queries"),
        (("transformer", "transformer"), "encoder.output"),
        (("lstm", "lstm"), "decoder.attention.weights"),
        (("lstm", "gru"), "decoder.layers.0.states"),
        (("lstm", "lstm"), "embed_target.vectors"),
    ],
)
def test_a_translator_that_searches_with_beams(kinds: tuple[str, str], name: str) -> None:
    """What is found has the scores that one pass over it gives, under the same change."""
    model = randomise(translator(*kinds)).double().eval()
    source = tokens(2, S, vocab=11)
    with intervene(model, {name: gf.Change(lambda tensor: 0.5 * tensor.flip(-1), positions=[1, 2])}):
        found = beam_search(model, source, None, Search(3, best=3), Marks([1], 0), [6, 6])
        for row, hypotheses in enumerate(found):
            for one in hypotheses:
                ids = torch.tensor([[1, *one.ids, *[0] * one.ended]])
                longer = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], 1)
                chances = model(source[row : row + 1], None, longer).log_softmax(-1)
                total = chances[0].gather(1, ids[0, 1:].unsqueeze(1)).sum()
                assert total.item() == pytest.approx(one.score, abs=1e-6)
    plain = beam_search(model, source, None, Search(3, best=3), Marks([1], 0), [6, 6])
    assert plain != found
    assert untouched(model)


@pytest.mark.parametrize("encoder", ["average", "bag", "transformer"])
def test_a_classifier(encoder: str) -> None:
    settings = resolve({}, {"task": "classification", "model.encoder": encoder}).model
    model = randomise(build_predictor(settings, outputs=3, vocab=VOCAB)).eval()
    ids = tokens(B, T, vocab=VOCAB)
    plain, name = model(ids, MASK), "bag.output" if encoder == "bag" else "pool.output"
    with intervene(model, {name: gf.zero()}):
        none = model(ids, MASK)
    same(none, model.head(torch.zeros_like(model.features(ids, MASK))))
    with intervene(model, {"logits": lambda scores: scores + 1}):
        same(model(ids, MASK), plain + 1)
    with intervene(model, {"logits": gf.scale(1), name: gf.scale(2.0)}), capture(model) as seen:
        model(ids, MASK)
    same(seen[name], 2 * model.features(ids, MASK), 1e-5)
    if encoder != "bag":
        with intervene(model, {"embed.vectors": gf.zero(positions=[4, 5])}):
            changed = model(ids, MASK)
        assert torch.equal(changed[1:], plain[1:])  # there, these are padding
        assert differs(changed[:1], plain[:1])


def test_the_fused_step_steps_aside_and_comes_back() -> None:
    model, ids = language_model(heads=2, style="llama"), tokens(1, T, vocab=VOCAB)

    def steps(state: Any, begin: int = 0) -> Tensor:
        return torch.cat([model.extend(ids[:, t : t + 1], state) for t in range(begin, T)], 1)

    with torch.inference_mode():
        plain = steps(fused := model.init_state(1, T))
        assert fused.fused
        with intervene(model, {"encoder.blocks.*.feed.active": gf.scale(1), "logits": gf.scale(1.0)}):
            assert torch.equal(steps(model.init_state(1, T)), plain)
        with intervene(model, {"encoder.blocks.1.feed.active": gf.zero(positions=[4])}):
            whole = model.features(ids)
            same(steps(state := model.init_state(1, T)), whole, 1e-4)
            assert state.fused is False
        begun = model.init_state(1, T)
        model.extend(ids[:, :1], begun), model.extend(ids[:, 1:2], begun)
        assert begun.fused
        with intervene(model, {"encoder.blocks.1.feed.active": gf.zero(positions=[4])}):
            same(steps(begun, 2), whole[:, 2:], 1e-4)
        assert differs(whole, plain)


def test_gone_after_an_error() -> None:
    model, ids = language_model(heads=2), tokens(1, T, vocab=VOCAB)
    plain = model(ids)
    changes: Any = {name: gf.zero() for name in ("encoder.output", "encoder.blocks.0.attend.weights", "logits")}
    with pytest.raises(IndexError), intervene(model, changes):
        model(torch.tensor([[VOCAB]]))
    assert untouched(model)
    assert torch.equal(model(ids), plain)

    def fail(tensor: Tensor) -> Tensor:
        raise ZeroDivisionError

    with intervene(model, {"encoder.blocks.0.feed.active": gf.zero(positions=[3])}):
        with pytest.raises(ZeroDivisionError), intervene(model, {"encoder.blocks.1.feed.active": fail}):
            model(ids)
        inner = model(ids)
    with intervene(model, {"encoder.blocks.0.feed.active": gf.zero(positions=[3])}):
        assert torch.equal(model(ids), inner)
    assert untouched(model)


def test_rows_with_positions_of_their_own() -> None:
    encoder = build(small("lstm"), causal=True)
    x, chosen = numbers(B, T, encoder.width), numbers(B, T) > 0
    with intervene(encoder, {"layers.0.states": gf.zero(positions=chosen)}):
        together, pieces = encoder(x), in_pieces(encoder, x)
    same(together, pieces)
    for row, places in enumerate(chosen):
        with intervene(encoder, {"layers.0.states": gf.zero(positions=places.nonzero().flatten().tolist())}):
            same(encoder(x)[row], together[row])
    with pytest.raises(Misuse, match="positions of 3 rows"), intervene(encoder, {"input": gf.zero(positions=chosen)}):
        encoder(x[:2])


def test_names_and_patterns() -> None:
    model = randomise(translator()).eval()
    inputs = (tokens(1, S, vocab=11), None, tokens(1, T, vocab=11), None)
    outs = []
    for name in ("decoder.blocks.0.cross_attention.mixed", "*cross_attention.mixed"):
        with intervene(model, {name: gf.zero()}):
            outs.append(model(*inputs))
    assert torch.equal(outs[0], outs[1])
    assert differs(outs[0], model(*inputs))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("encoder.blocks.1.attend.mixd", gf.zero(), "did you mean encoder.blocks.1.attend.mixed"),
        ("encoder.blocks.1.attend.mixed", gf.zero(heads=[2]), "no head 2 of encoder.blocks.1.attend.mixed: it has 2"),
        ("encoder.blocks.1.output", gf.zero(heads=[0]), "it has no heads"),
        (
            "encoder.blocks.1.output",
            gf.zero(positions=[T]),
            f"no position {T} of encoder.blocks.1.output: this text has",
        ),
        ("embed.vectors", gf.zero(positions=[T]), f"no position {T} of embed.vectors"),
        ("logits", gf.zero(positions=[T]), f"no position {T} of logits"),
        ("encoder.blocks.1.output", gf.replace(torch.zeros(7)), "a replacement of 7 for encoder.blocks.1.output"),
        ("encoder.blocks.1.output", gf.replace(torch.zeros(3, 16)), "a change of 3 tokens of"),
        (
            "encoder.output",
            gf.replace(torch.zeros(3, 16), positions=[1, 2]),
            "a replacement of 3×16 for encoder.output",
        ),
        ("encoder.output", lambda tensor: tensor[:, :2], "a change of encoder.output gave 1×2×16, but it is 1×6×16"),
        ("encoder.output", lambda tensor: None, "gave NoneType"),
    ],
)
def test_misuse_is_one_line(name: str, change: Any, words: str) -> None:
    model = language_model(heads=2)
    with pytest.raises(Misuse) as error, intervene(model, {name: change}):
        model(tokens(1, T, vocab=VOCAB))
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert untouched(model)


def test_positions_count_from_0() -> None:
    with pytest.raises(Misuse, match="position -1 of a change"):
        gf.zero(positions=[-1])
    with pytest.raises(Misuse, match=r"heads of a change are a list, such as \[3\], not int"):
        gf.zero(heads=3)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="named twice"):
        gf.zero(positions=[1, 1])
