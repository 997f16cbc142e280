"""Export of a run to a Hugging Face folder, which transformers loads without our code. The export is read back."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, RunError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import listening, say, silent
from glassformer.config.model_section import Transformer
from glassformer.config.plugins import FAMILY, parts_of
from glassformer.config.presets import VECTORS, VERSION
from glassformer.config.progress import progress_of
from glassformer.config.resolve import Config
from glassformer.exchange import CONFIG
from glassformer.exchange.exporting import ExportedRun, fill_folder, fill_template, inference_copy
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Unsupported,
    label_settings,
    require_settings,
    transformer_of,
)
from glassformer.exchange.huggingface.architectures import ARCHITECTURES
from glassformer.exchange.huggingface.folder import read_folder, sentence_files
from glassformer.exchange.huggingface.importing import import_external
from glassformer.exchange.token_export import token_settings, write_token_files
from glassformer.exchange.token_reader import ORIGINALS
from glassformer.models.weights import take_weights
from glassformer.runs import weight_files
from glassformer.runs.files import write_json, write_text
from glassformer.runs.weight_files import INDEX, NAMES, WHOLE
from glassformer.tasks.answers import Answers, Classes, Scale

HEAD, HEAD_BIAS = "head.output.weight", "head.output.bias"
TEMPLATE = "README.md.jinja"


class TheirConfig(NamedTuple):
    """A run expressed in a Hugging Face architecture."""

    architecture: Architecture
    name: str
    """Class name in `architectures` of config.json."""
    values: JsonObject
    """Other entries of config.json."""


def export_huggingface(run: ExportedRun, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write config.json, model.safetensors or its shards, the tokenizer files and a model card.

    The result is imported again. If it differs from the run by more than rounding, this raises `RunError` and removes
    the files.
    """
    if parts := [part for part in parts_of(run.config) if part.kind != FAMILY]:
        raise Misuse(f"{parts[0]} is unknown to transformers: --to onnx writes what it computes")
    assert run.tokenizer is not None
    theirs = their_config(run.config, run.tokenizer.vocab_size, run.imported_as)
    weights = _weights(run, theirs)
    model = inference_copy(run.model)
    with fill_folder(folder, overwrite=overwrite, owned=(*ORIGINALS, "tokenizer.json", *NAMES)) as place:
        weight_files.save(place, weights)
        write_json(
            place / CONFIG,
            {
                "architectures": [theirs.name],
                "model_type": theirs.architecture.model_type,
                "dtype": "float32",
                "torch_dtype": "float32",  # its name in older versions
                **theirs.values,
                **token_settings(run.tokenizer, run.config),
                **({} if run.answers is None else label_settings(run.answers)),
            },
        )
        write_token_files(run, run.tokenizer, place)
        for file, value in (sentence_files(transformer_of(run.config)) if run.config.task == VECTORS else {}).items():
            (place / file).parent.mkdir(exist_ok=True)
            write_json(place / file, value)
        auto = theirs.architecture.auto_classes[theirs.name]
        readme = fill_template(__name__, TEMPLATE, run=run, name=theirs.name, auto=auto, version=VERSION)
        write_text(place / "README.md", readme)
        difference = run.check(model, read_back(place, run.answers), folder)
        names = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    say(f"{theirs.name}; read back, {difference}")
    return [folder / file for file in names]


def their_config(config: Config, vocab: int, imported_as: str | None = None) -> TheirConfig:
    """Return the first architecture that can express a run; if none can, raise what the nearest one lacks.

    Several architectures can express the same run, such as BERT and RoBERTa. `imported_as`, the class that an imported
    run came from, is tried first.
    """
    if not isinstance(config.model, Transformer):
        raise Unsupported(f"Hugging Face has no {config.model.encoder} model; --to onnx exports any run")
    nearest: Unsupported | None = None
    for each in sorted(ARCHITECTURES.values(), key=lambda architecture: imported_as not in architecture.tasks):
        name = each.name_for(config.task)
        if name is None:
            continue
        try:
            require_settings(config, each.choices(config.task), each.name)
            return TheirConfig(each, name, each.write(config, vocab))
        except Unsupported as error:
            nearest = error if nearest is None or error.differences < nearest.differences else nearest
    if nearest is None:
        raise Unsupported(f"no architecture there has a model of the task {config.task}; try --to onnx")
    both_ways = ARCHITECTURES["bert"].name_for(config.task) is not None and not config.model.causal
    advice = "train it with --style bert; " if both_ways else ""
    raise Unsupported(f"{nearest}; {advice}--to onnx exports any run")


def _weights(run: ExportedRun, theirs: TheirConfig) -> dict[str, Tensor]:
    ours = {key: weight.float().cpu() for key, weight in take_weights(run.model).items()}
    ours |= _scores(ours, run.answers, theirs.name)
    weights: dict[str, Tensor] = {}
    done, total, progress = 0, sum(weight.numel() for weight in ours.values()), progress_of("parameter")
    for match in theirs.architecture.matches(ours, transformer_of(run.config), theirs.name):
        for name, weight in zip(match.theirs, match.to_theirs([ours[key] for key in match.ours]), strict=True):
            weights[name] = weight.contiguous().clone()  # safetensors refuses shared storage
        done += sum(ours[key].numel() for key in match.ours)
        progress(done, total)
    return weights


def _scores(ours: dict[str, Tensor], answers: Answers | None, name: str) -> dict[str, Tensor]:
    """Return the weights of the head whose scores differ from ours.

    For two classes, class 0 gets the score 0. Numbers get the unit of the data.
    """
    last = {key: ours[key] for key in (HEAD, HEAD_BIAS) if key in ours}
    if isinstance(answers, Classes) and answers.loss == "logistic":
        return {key: torch.cat([torch.zeros_like(weight), weight]) for key, weight in last.items()}
    if isinstance(answers, Scale):
        if answers.mean != 0 and HEAD_BIAS not in last:
            raise Unsupported(f"{name} has no bias to hold the mean {answers.mean:.4g} of the numbers; try --to onnx")
        scaled = {key: weight * answers.spread for key, weight in last.items()}
        return {key: weight + answers.mean if key == HEAD_BIAS else weight for key, weight in scaled.items()}
    return {}


class _OurScores(nn.Module):
    """A Hugging Face model with its scores converted to ours."""

    def __init__(self, model: nn.Module, answers: Answers) -> None:
        super().__init__()
        self.model = model
        self.answers = answers

    def forward(self, *inputs: Tensor) -> Tensor:
        scores: Tensor = self.model(*inputs)
        if isinstance(self.answers, Classes) and self.answers.loss == "logistic":
            return scores[:, 1:] - scores[:, :1]
        return (scores - self.answers.mean) / self.answers.spread if isinstance(self.answers, Scale) else scores


def is_huggingface(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in (WHOLE, INDEX))


@listening(silent)
def read_back(folder: Path, answers: Answers | None) -> nn.Module:
    """Return the exported model, called like the run's own model."""
    try:
        model = import_external(read_folder(folder)).model
    except Misuse as error:
        raise RunError(f"what was exported cannot be read back: {error}") from None
    return inference_copy(model if answers is None else _OurScores(model, answers))
