"""A run as a Hugging Face folder, which transformers loads with no code of ours. It is read back before it is kept."""

from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, RunError, Say, silent
from glassformer.config.plugins import FAMILY, parts_of
from glassformer.config.presets import TRANSLATION, VERSION
from glassformer.config.progress import progress_of
from glassformer.exchange import CONFIG
from glassformer.exchange.exporting import ExportedRun, fill_folder, inference_copy
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.folder import read_folder
from glassformer.exchange.huggingface.importing import import_external
from glassformer.exchange.huggingface.labels import label_settings
from glassformer.exchange.huggingface.registry import TheirConfig, their_config
from glassformer.exchange.tokens.export import token_settings, write_token_files
from glassformer.exchange.tokens.files import ORIGINALS
from glassformer.models.weights import take_weights
from glassformer.runs import weight_files
from glassformer.runs.files import write_json, write_text
from glassformer.runs.weight_files import NAMES, PYTORCH
from glassformer.tasks.answers import Answers, Classes, Scale
from glassformer.text.escaping import markdown

HEAD, HEAD_BIAS = "head.output.weight", "head.output.bias"
AUTO = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "MTModel": "AutoModelForSeq2SeqLM",
}
"""The class of theirs that loads an architecture, by the end of its name."""
USE = {
    "AutoModelForCausalLM": """\
inputs = tokenizer("A prompt", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=50)[0], skip_special_tokens=True))""",
    "AutoModelForSequenceClassification": """\
scores = model(**tokenizer("A text", return_tensors="pt")).logits[0]
print(dict(zip(model.config.id2label.values(), scores.tolist())))""",
    "AutoModelForSeq2SeqLM": """\
written = model.generate(**tokenizer("A text", return_tensors="pt"))
print(tokenizer.decode(written[0], skip_special_tokens=True))""",
}
README = """\
# {run}

{name} ({kind}), exported with glassformer {version}.

```python
from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = {auto}.from_pretrained(".")
{use}
```

A text that spells the name of a special token is read as that token by transformers; glassformer reads
it as text.
"""


def export_huggingface(run: ExportedRun, folder: Path, *, overwrite: bool = False, say: Say = silent) -> list[Path]:
    """config.json, model.safetensors or its shards, the files about tokens and a model card.

    What was written is imported again at once; if that differs from the run by more than rounding can explain, it is an
    error, and nothing is left behind.
    """
    if parts := [part for part in parts_of(run.config) if part.kind != FAMILY]:
        raise Misuse(
            f"{parts[0]} is a person's own, which transformers does not know: --to onnx writes what it computes"
        )
    assert run.tokenizer is not None
    theirs = their_config(run.config, run.tokenizer.vocab_size, run.imported_as)
    weights = _weights(run, theirs)
    model = inference_copy(run.model)
    with fill_folder(folder, overwrite=overwrite, owned=(*ORIGINALS, "tokenizer.json", *NAMES)) as place:
        weight_files.save(place, weights, PYTORCH)
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
        for file, value in theirs.architecture.extra_files(run.config).items():
            (place / file).parent.mkdir(exist_ok=True)
            write_json(place / file, value)
        write_text(place / "README.md", _readme(run, theirs.name))
        difference = run.check(model, read_back(place, run.answers), folder)
        names = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    say(f"{theirs.name}; read back, {difference}")
    return [folder / file for file in names]


def _weights(run: ExportedRun, theirs: TheirConfig) -> dict[str, Tensor]:
    ours = {key: weight.float().cpu() for key, weight in take_weights(run.model).items()}
    ours |= _scores(ours, run.answers, theirs.name)
    weights: dict[str, Tensor] = {}
    done, total, progress = 0, sum(weight.numel() for weight in ours.values()), progress_of("parameter")
    for match in theirs.architecture.matches(ours, run.config.model, theirs.name):
        for name, weight in zip(match.theirs, match.to_theirs([ours[key] for key in match.ours]), strict=True):
            weights[name] = weight.contiguous().clone()  # what shares its numbers cannot be saved
        done += sum(ours[key].numel() for key in match.ours)
        progress(done, total)
    return weights


def _scores(ours: dict[str, Tensor], answers: Answers | None, name: str) -> dict[str, Tensor]:
    """The last map, where theirs gives other scores: a class that ours leaves at 0, numbers in the unit of the data."""
    last = {key: ours[key] for key in (HEAD, HEAD_BIAS) if key in ours}
    if isinstance(answers, Classes) and answers.loss == "logistic":
        return {key: torch.cat([torch.zeros_like(weight), weight]) for key, weight in last.items()}
    if isinstance(answers, Scale):
        if answers.mean != 0 and HEAD_BIAS not in last:
            raise Unsupported(
                f"{name} has no bias to hold the mean {answers.mean:.4g} of the numbers that this run predicts; --to "
                "onnx exports any run"
            )
        scaled = {key: weight * answers.spread for key, weight in last.items()}
        return {key: weight + answers.mean if key == HEAD_BIAS else weight for key, weight in scaled.items()}
    return {}


class _OurScores(nn.Module):
    """A model of theirs whose scores are as ours are."""

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
    return (folder / CONFIG).is_file() and weight_files.main_file(folder).is_file()


def read_back(folder: Path, answers: Answers | None) -> nn.Module:
    """The model of an exported folder, called as the run's own; `answers`: the run's."""
    try:
        model = import_external(read_folder(folder)).model
    except Misuse as error:
        raise RunError(f"what was exported cannot be read back: {error}") from None
    return inference_copy(model if answers is None else _OurScores(model, answers))


def _readme(run: ExportedRun, name: str) -> str:
    auto = next((auto for end, auto in AUTO.items() if name.endswith(end)), "AutoModel")
    return README.format(
        run=markdown(run.name),
        name=name,
        kind="translator" if run.config.task == TRANSLATION else markdown(run.config.task),
        version=VERSION,
        auto=auto,
        use=USE.get(auto, 'print(model(**tokenizer("A text", return_tensors="pt")))'),
    )
