"""BART and Marian as transformers computes them: layer by layer, padded, greedily and by beams; in and out again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import glassformer as gf
from glassformer.decoding.options import Search
from glassformer.decoding.translate import GREEDY, longest_translation, marks_of, translate
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.folder import read_folder
from glassformer.exchange.huggingface.importing import import_external
from glassformer.families.translation import LoadedTranslator
from glassformer.models.modules import Seq2Seq
from helpers.translator_twins import (
    CONTEXT,
    END,
    KINDS,
    NEVER,
    PAD,
    START,
    VOCAB,
    WORDS,
    padded,
    save_translator,
    sources,
)
from helpers.twins import close

OPENINGS = {"bart": (END, START), "marian": (PAD,)}


@pytest.fixture(scope="module", params=list(KINDS))
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Twin":
    """Which it is, theirs, ours, and the folder it came from."""
    folder = tmp_path_factory.mktemp("twin")
    theirs = save_translator(folder, request.param)
    ours = gf.load(gf.import_model(folder, tmp_path_factory.mktemp("runs") / "run"), "cpu")
    assert isinstance(ours, LoadedTranslator)
    return request.param, theirs, ours, folder


Twin = tuple[str, Any, LoadedTranslator, Path]


def outputs_of(stack: nn.Module, run: Any) -> list[Tensor]:
    """What each block of a stack gives while something runs."""
    found: list[Tensor] = []
    blocks = list(stack.blocks)  # type: ignore[arg-type]
    hooks = [block.register_forward_hook(lambda _, __, out: found.append(out)) for block in blocks]
    with torch.no_grad():
        run()
    for hook in hooks:
        hook.remove()
    return found


def test_each_layer_is_the_same_in_padded_rows(twin: Twin) -> None:
    kind, theirs, ours, _ = twin
    ids, mask = padded(sources(kind == "bart"))
    target = torch.randint(VOCAB, (len(ids), 13), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), decoder_input_ids=target, output_hidden_states=True)
        close(ours.model(ids, mask, target), wanted.logits)
    for side, states in (("encoder", wanted.encoder_hidden_states), ("decoder", wanted.decoder_hidden_states)):
        found = outputs_of(getattr(ours.model, side), lambda: ours.model(ids, mask, target))
        real = mask if side == "encoder" else torch.ones_like(target, dtype=torch.bool)
        for block, hidden in zip(found, states[1:], strict=True):
            close(block[real], hidden[real])


def test_what_is_for_what(twin: Twin) -> None:
    kind, _, ours, _ = twin
    roles = ours.tokenizer.roles
    assert (roles.opening, roles.closing) == (OPENINGS[kind], (END,))
    assert roles.source == ((START,) if kind == "bart" else ())
    assert marks_of(ours.tokenizer, ours.model).never == NEVER


def test_it_writes_the_same_greedily(twin: Twin) -> None:
    kind, theirs, ours, _ = twin
    rows = sources(kind == "bart")
    marks = marks_of(ours.tokenizer, ours.model)
    found = translate(ours.model, rows, GREEDY, marks, context=CONTEXT)
    before = len(OPENINGS[kind])
    for row, (best,) in zip(rows, found, strict=True):
        most = min(longest_translation(len(row), CONTEXT), CONTEXT + 1 - before)
        written = theirs.generate(torch.tensor([row]), num_beams=1, do_sample=False, max_length=most + before)[0]
        assert written.tolist() == [*OPENINGS[kind], *best.ids, *[END] * best.ended]
    assert len({tuple(best.ids) for (best,) in found}) == len(rows)
    assert len({id for (best,) in found for id in best.ids}) > 2


def score(model: Any, row: list[int], written: list[int], before: int) -> float:
    """The log-probability of what was written after so many tokens."""
    with torch.no_grad():
        scores = model(torch.tensor([row]), decoder_input_ids=torch.tensor([written[:-1]])).logits[0]
    chances = scores.log_softmax(-1).gather(-1, torch.tensor(written[1:]).unsqueeze(-1))
    return float(chances[before - 1 :].sum())


@pytest.mark.slow
def test_beams_find_nothing_worse_but_once(twin: Twin) -> None:
    """By the sum of their tokens' log-probabilities: lengths are counted differently. Ours keeps a place for the greedy
    path, so that the two prune differently, and neither is always the better.
    """
    kind, theirs, ours, _ = twin
    rows, before = sources(kind == "bart"), len(OPENINGS[kind])
    marks = marks_of(ours.tokenizer, ours.model)
    found = translate(ours.model, rows, Search(beam=4, length_penalty=0.0), marks, context=CONTEXT)
    how = {"num_beams": 4, "do_sample": False, "length_penalty": 0.0}
    no_worse = 0
    for row, (best,) in zip(rows, found, strict=True):
        most = min(longest_translation(len(row), CONTEXT), CONTEXT + 1 - before)
        generated = theirs.generate(torch.tensor([row]), max_length=most + before, **how)[0]
        total = score(theirs, row, [*OPENINGS[kind], *best.ids, *[END] * best.ended], before)
        assert best.score == pytest.approx(total, abs=1e-3)
        no_worse += total >= score(theirs, row, generated.tolist(), before) - 1e-3
    assert no_worse >= len(rows) - 1


def test_the_loss_is_theirs(twin: Twin) -> None:
    """The mean over what is asked: all of a target, but not what opens it."""
    kind, theirs, ours, folder = twin
    texts = ["w1 w2 w3", "w7", "w11 w5 w5 w2 w60"]
    table = folder / "pairs.tsv"
    table.write_text("source\ttarget\n" + "".join(f"{text}\t{text} w9\n" for text in texts))
    evaluation = gf.evaluate(ours, str(table), beam=1)
    losses = []
    for text in texts:
        ids = ours.tokenizer.encode(text)
        source = [*ours.tokenizer.roles.source, *ids, END]
        target = [*OPENINGS[kind], *ids, WORDS.index("w9"), END]
        losses.append(-score(theirs, source, target, len(OPENINGS[kind])))
    assert evaluation.metrics["target_tokens"] == sum(len(text.split()) + 2 for text in texts)
    assert evaluation.metrics["loss"] == pytest.approx(sum(losses) / evaluation.metrics["target_tokens"], rel=1e-5)


def test_raw_texts_in_and_out(twin: Twin) -> None:
    kind, theirs, ours, folder = twin
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "w3 w14 w15 w92 w65"
    batch = tokenizer(text, return_tensors="pt")
    most = min(longest_translation(batch["input_ids"].shape[1], CONTEXT), CONTEXT + 1 - len(OPENINGS[kind]))
    written = theirs.generate(**batch, num_beams=1, do_sample=False, max_length=most + len(OPENINGS[kind]))
    assert ours.translate(text, beam=1).text == tokenizer.decode(written[0], skip_special_tokens=True)
    with torch.no_grad():
        states = theirs.get_encoder()(**batch).last_hidden_state[0]
    inside = states[1:-1] if kind == "bart" else states[:-1]
    close(torch.from_numpy(ours.embed(text).vector), inside.mean(0))
    view = gf.look(ours, text, view="alignment", beam=1)
    assert view.panels


def test_it_goes_out_as_it_came(twin: Twin, tmp_path: Path) -> None:
    kind, theirs, ours, folder = twin
    gf.export(ours, to="hf", folder=tmp_path / "out")
    back, tokenizer = (
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(tmp_path / "out"),
    )
    assert type(back) is KINDS[kind][0]
    batch = tokenizer(["w1 w2 w3", "w9"], return_tensors="pt", padding=True)
    assert (
        batch["input_ids"].tolist()
        == AutoTokenizer.from_pretrained(folder)(["w1 w2 w3", "w9"], padding=True)["input_ids"]
    )
    with torch.no_grad():
        target = torch.tensor([[2, 5, 7], [2, 9, 4]])
        close(back(**batch, decoder_input_ids=target).logits, theirs(**batch, decoder_input_ids=target).logits)
    some = {"num_beams": 1, "do_sample": False, "max_length": CONTEXT}
    assert back.generate(**batch, **some).tolist() == theirs.generate(**batch, **some).tolist()


def test_training_goes_on_with_what_opens_a_target(twin: Twin) -> None:
    """The batch of a task: what is read begins with all of it, and only what follows the last of it is asked."""
    from glassformer.data.features.texts import encode_pairs
    from glassformer.data.split.pairs import Pairs
    from glassformer.tasks.translation import NOTHING, Translating

    kind, _, ours, _ = twin
    pairs = Pairs("train", ["w1 w2", "w3"], ["w4", "w5 w6"], [1, 2], "some")
    examples = encode_pairs(pairs, ours.tokenizer, ours.target_tokenizer, context=CONTEXT, too_long="drop")
    batch = Translating({"train": examples}, ours.tokenizer, context=CONTEXT, batch_tokens=100).batch(0)
    _, _, read, answers = batch.tensors(torch.device("cpu"))
    opening = len(OPENINGS[kind])
    assert all(tuple(row[:opening]) == OPENINGS[kind] for row in read.tolist())
    assert (answers[:, : opening - 1] == NOTHING).all()
    assert batch.count == int((answers != NOTHING).sum()) == 2 + 3


# What cannot come in


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("marian", "share_encoder_decoder_embeddings", False),
        ("marian", "decoder_vocab_size", 97),
        ("marian", "normalize_before", True),
        ("marian", "decoder_attention_heads", 11),
        ("marian", "normalize_embedding", True),
        ("bart", "decoder_ffn_dim", 49),
        ("bart", "add_final_layer_norm", True),
        ("bart", "static_position_embeddings", True),
        ("bart", "activation_function", "mish"),
    ],
)
def test_what_ours_cannot_be_is_refused_by_name(kind: str, key: str, value: Any, tmp_path: Path) -> None:
    save_translator(tmp_path, kind)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, key: value}))
    with pytest.raises(Unsupported, match=key):
        import_external(read_folder(tmp_path))


def test_a_file_without_the_heads_bias_or_with_tables_of_waves(tmp_path: Path) -> None:
    theirs = save_translator(tmp_path, "marian")
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("final_logits_bias")
    waves = theirs.model.encoder.embed_positions.weight.detach()
    weights |= {f"model.{side}.embed_positions.weight": waves.clone() for side in ("encoder", "decoder")}
    weights["lm_head.weight"] = weights["model.shared.weight"].clone()
    save_file(weights, tmp_path / "model.safetensors")
    model = import_external(read_folder(tmp_path)).model
    assert isinstance(model, Seq2Seq)
    assert not model.head.bias.any()
    theirs.final_logits_bias.zero_()
    ids, mask = padded(sources(False))
    target = torch.tensor([[PAD, 5]] * len(ids))
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), decoder_input_ids=target).logits
        close(model(ids, mask, target), wanted)
