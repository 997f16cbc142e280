"""Every kind of model as an ONNX graph: onnxruntime computes what the model computes, at sizes it was not made with."""

import contextlib
import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import Tensor

from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT
from glassformer.data.features.texts import encode_examples
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import generate
from glassformer.decoding.translate import GREEDY, marks_of, translate
from glassformer.models.modules import Seq2Seq
from glassformer.tasks.answers import Classes, Labels, Scale
from helpers.exported import (
    CAPITALS,
    CATEGORIES,
    COLOURS,
    LETTERS,
    NUMBERS,
    export,
    guesser,
    reader,
    translator,
    writer,
)
from helpers.kinds import part_of
from helpers.support import numbers
from helpers.support import tokens as some_tokens

QUICK: dict[str, Any] = {
    "writer": lambda: writer("transformer", kv_heads=1, heads=2),
    "two-way": lambda: reader(TEXT, "gru", bidirectional=True, pool="last"),
    "bag": lambda: reader(TEXT, "bag", Labels(("red", "green", "blue")), ngrams=3, buckets=101),
    "mixed": lambda: reader(MIXED, "average", Classes(("no", "yes"), "logistic")),
    "fed": lambda: translator("average", "rnn", input_feeding=True, attention="additive"),
}
SLOW: dict[str, Any] = {
    **{f"writes {name}": lambda name=name: writer(name) for name in ("window", "cnn", "rnn", "lstm", "gru", "average")},
    **{f"style {name}": lambda name=name: writer("transformer", style=name) for name in ("classic", "gpt2", "llama")},
    "guesser": lambda: guesser(style="bert"),
    "projected": lambda: writer("lstm", cells=19, layers=2),
    "layerwise": lambda: translator("transformer", "transformer", attention="layerwise", layers=2, decoder_layers=2),
    "single bias": lambda: writer("gru", bias="single"),
    "one-hot positions": lambda: writer("transformer", positions="onehot", norm="rms", qk_norm=True),
    "unmasked": lambda: writer(
        "transformer", causal_mask=False, positions="learned", scores="bilinear", head_width=None
    ),
    **{
        f"reads {name}": lambda name=name, pool=pool: reader(TEXT, name, pool=pool)
        for name, pool in (("transformer", "attention"), ("cnn", "max"), ("lstm", "mean"), ("average", "mean"))
    },
    "spelled": lambda: reader(TEXT, "bag", words=2, ngrams=4, buckets=103, head_layers=1),
    "counts": lambda: reader(TEXT, "bag", weighting="counts", ngrams=2, buckets=97),
    **{f"pixels {name}": lambda name=name: reader(IMAGE, name) for name in ("transformer", "cnn", "linear", "mlp")},
    **{f"rows {name}": lambda name=name: reader(TABLE, name) for name in ("transformer", "linear", "mlp")},
    "numbers": lambda: reader(TABLE, "mlp", Scale(1900.0, 30.0), NUMBERS),
    "categories": lambda: reader(TABLE, "transformer", features=CATEGORIES),
    "transformers": lambda: translator("transformer", "transformer"),
    "bottleneck": lambda: translator("lstm", "lstm", attention="none", bidirectional=True, layers=2),
    "looking": lambda: translator("gru", "gru", attention="bilinear", bidirectional=False),
    "fed lstm": lambda: translator("transformer", "lstm", input_feeding=True, attention="dot", decoder_layers=2),
}  # fmt: skip
CASES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def mask_of(*lengths: int, width: int) -> Tensor:
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(1)


def inputs_of(what: dict[str, Any], rows: int, length: int) -> dict[str, Tensor]:
    """Random examples; the second row is short, and the third has nothing."""
    lengths = [length, (length + 1) // 2, 0, *[length] * rows][:rows]
    shape = what["features"].shape if what["features"] else None
    if isinstance(what["model"], Seq2Seq):
        return {
            "source": some_tokens(rows, length, vocab=LETTERS.vocab_size),
            "source_mask": mask_of(*lengths, width=length),
            "target": some_tokens(rows, length + 2, vocab=CAPITALS.vocab_size, seed=1),
        }
    found = {}
    if what["tokenizer"] is not None:
        found["tokens"] = some_tokens(rows, length, vocab=LETTERS.vocab_size)
        found["mask"] = mask_of(*lengths, width=length)
    if shape is not None and shape.columns:
        found["numbers"] = numbers(rows, shape.numbers, dtype=torch.float32)
        columns = [some_tokens(rows, 1, vocab=size, seed=size) for size in shape.categories]
        found["categories"] = torch.cat([torch.empty(rows, 0, dtype=torch.int64), *columns], 1)
    if shape is not None and shape.image is not None:
        found["pixels"] = numbers(rows, *shape.image, dtype=torch.float32)
    return found


def run(folder: Path, inputs: dict[str, Tensor]) -> list[Tensor]:
    """By onnxruntime alone."""
    fed = {name: value.numpy() for name, value in inputs.items() if value.shape[-1]}
    if (folder / "model.onnx").exists():
        session = onnxruntime.InferenceSession(folder / "model.onnx")
        return [torch.from_numpy(found) for found in session.run(None, fed)]
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{half}.onnx") for half in ("encoder", "decoder"))
    target = {"target": fed.pop("target"), "source_mask": fed["source_mask"]}
    (memory,) = encoder.run(None, fed)
    return [torch.from_numpy(found) for found in decoder.run(None, {**target, "memory": memory})]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_computes_what_the_model_computes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = {**QUICK, **SLOW}[name]()
    model, answers = what["model"], what["answers"]
    files = export(what, tmp_path / "out")
    assert {file.name for file in files} == {file.name for file in (tmp_path / "out").iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    for rows, length in ((1, 1), (5, 13), (2, 19)):
        inputs = inputs_of(what, rows, length)
        with torch.inference_mode():
            wanted = model(*inputs.values())
        found, *meaning = run(tmp_path / "out", inputs)
        real = inputs["mask"] if answers is None and "mask" in inputs else torch.ones(wanted.shape[:-1]).bool()
        torch.testing.assert_close(found[real], wanted[real], atol=1e-4, rtol=1e-4)
        if answers is not None:
            said = answers.values(wanted) if isinstance(answers, Scale) else answers.probabilities(wanted)
            torch.testing.assert_close(meaning[0], said, atol=1e-4, rtol=1e-4, check_dtype=False)
    assert not any(b"site-packages" in file.read_bytes() for file in files)  # nothing of the machine it was made on
    if what["config"].data.kind not in (IMAGE, MIXED):
        monkeypatch.chdir(tmp_path / "out")
        assert printed() == expected(what)


def printed() -> str:
    """What the program in the README prints, in its folder."""
    (program,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})
    return out.getvalue()


@torch.inference_mode()
def expected(what: dict[str, Any]) -> Any:
    """The same, as this house computes it."""
    model, config, answers = what["model"], what["config"], what["answers"]
    if isinstance(model, Seq2Seq):
        marks = marks_of(CAPITALS, model)
        source = [*LETTERS.encode("a text"), LETTERS.end]
        ((best,),) = translate(model, [source], GREEDY, marks, context=config.model.context)
        return AnyStart(CAPITALS.decode(best.ids))
    if answers is None:
        if not model.encoder.causal:
            return AnyStart("[")
        steps = generate(model, [[LETTERS.start, *LETTERS.encode("A")]], Sampling(0.0), max_tokens=20, end=LETTERS.end,
                         never=LETTERS.never(LETTERS.vocab_size))  # fmt: skip
        ids = [token for (token,) in steps if token is not None]
        return AnyStart(LETTERS.decode([*LETTERS.encode("A"), *ids]))
    if config.data.kind == TABLE:
        shape = what["features"].shape
        row = torch.zeros(1, shape.numbers), torch.zeros(1, len(shape.categories), dtype=torch.int64)
        row[0][:, len(what["features"].numbers) :] = 1  # what may be missing, is
        scores = model(*row)
    else:
        texts = ["a text", "another, longer text"]
        examples = encode_examples(texts, np.zeros(2), LETTERS, context=config.model.context, framed=config.framed)
        scores = model(*examples.take(np.arange(2)))
    if isinstance(answers, Scale):
        return AnyStart(f"{float(answers.values(scores)[0]):.3f}")
    probabilities = answers.probabilities(scores)
    if isinstance(answers, Labels):
        return "".join(f"{answers.said(row)}\n" for row in probabilities.tolist())
    said = [f"{answers.names[int(row.argmax())]} {float(row.max()):.3f}" for row in probabilities]
    return Lines(said)


class AnyStart(str):
    """Equal to whatever begins so: how a float ends, or a text after its end, is not compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(str(self))

    __hash__ = str.__hash__


class Lines(list[str]):
    """Equal to lines that begin with the same word and a number of three equal digits."""

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, str)
        words = [line.split() for line in other.splitlines()]
        return [f"{name} {float(number):.3f}" for name, number in words] == list(self)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [IMAGE, MIXED])
def test_the_program_beside_it_reads_a_picture(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what = reader(kind, "average" if kind == MIXED else "linear")
    export(what, tmp_path / "out")
    picture = np.random.default_rng(0).integers(0, 255, (11, 7, 3)).astype(np.uint8)
    monkeypatch.chdir(tmp_path / "out")
    Image.fromarray(picture).save("image.png")
    row = part_of(height=[""], weight=[""], city=[""], size=[""])
    part = dataclasses.replace(row, texts=["a text"], pixels=picture[None])
    inputs = what["features"].inputs(part, np.zeros(1)).take(np.arange(1))
    with torch.inference_mode():
        (row_of,) = COLOURS.probabilities(what["model"](*inputs))
    assert Lines([f"{COLOURS.names[int(row_of.argmax())]} {float(row_of.max()):.3f}"]) == printed()


@pytest.mark.slow
def test_a_graph_says_what_its_axes_are(tmp_path: Path) -> None:
    export(writer("average"), tmp_path / "out")
    graph = onnx.load(tmp_path / "out" / "model.onnx").graph
    axes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in [*graph.input, *graph.output]
    }
    assert axes["tokens"] == axes["mask"] == ["batch", "length"]
    assert axes["logits"] == ["batch", "length", LETTERS.vocab_size]
