"""A run as a Hugging Face folder, which transformers loads with no code of ours. It is read back before it is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.config.errors import Misuse, RunError
from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.config.version import VERSION
from glassformer.exchange.export_folder import check_empty, filling
from glassformer.exchange.huggingface.architecture import Architecture, Unsupported
from glassformer.exchange.huggingface.folder import CONFIG, INDEX, WHOLE, read_folder
from glassformer.exchange.huggingface.labels import write_labels
from glassformer.exchange.huggingface.registry import written
from glassformer.exchange.importing import import_found
from glassformer.exchange.onnx.export import TOLERANCE, largest_difference
from glassformer.exchange.onnx.twins import in_use
from glassformer.exchange.tokens.export import generation_settings, token_files, token_settings
from glassformer.exchange.tokens.files import KEPT
from glassformer.models.shape import Shape
from glassformer.models.weights import take_weights
from glassformer.runs.files import write_json, write_text
from glassformer.tasks.answers import Answers, Classes, Scale
from glassformer.text.tokenizer import Tokenizer

HEAD, HEAD_BIAS = "head.output.weight", "head.output.bias"
AUTO = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "MTModel": "AutoModelForSeq2SeqLM",
}
"""By the end of an architecture's name, the class of theirs that loads it."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What goes out, and all that belongs to it."""

    model: nn.Module
    config: Config
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    answers: Answers | None = None
    name: str = "a run"
    """What the model card calls it."""
    original: Path | None = None
    """Where the files about tokens lie that came with an imported model."""
    chat_template: str | None = None
    specials: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by the names that the template has for them."""


def export_huggingface(run: Exported, folder: Path, *, overwrite: bool = False, say: Say = silent) -> list[Path]:
    """config.json, model.safetensors, the files about tokens and a model card.

    What was written is imported again at once; if that differs from the run by more than rounding can explain, it is an
    error, and nothing is left behind.
    """
    check_empty(folder, overwrite=overwrite)
    architecture, name, config = written(run.config, run.tokenizer.vocab_size)
    weights = _theirs(run, architecture, name)
    model = in_use(run.model)
    with filling(folder, overwrite=overwrite, owned=(*KEPT, "tokenizer.json", INDEX)) as place:
        save_file(weights, place / WHOLE, metadata={"format": "pt"})
        (place / WHOLE).chmod(0o644)  # safetensors makes files that nobody else may read
        write_json(place / CONFIG, _config(run, architecture, name, config))
        token_files(
            run.tokenizer,
            run.config,
            place,
            original=run.original,
            chat_template=run.chat_template,
            specials=run.specials,
        )
        if not (place / "generation_config.json").exists() and (how := generation_settings(run.tokenizer, run.config)):
            write_json(place / "generation_config.json", how)
        for file, value in architecture.files(run.config).items():
            (place / file).parent.mkdir(exist_ok=True)
            write_json(place / file, value)
        write_text(place / "README.md", _readme(run, name))
        difference = _compared(model, run, place)
        if not difference <= TOLERANCE:
            raise RunError(
                f"the exported model differs from its run by {difference:.2g} of the largest score, where rounding "
                f"explains {TOLERANCE:g}: nothing was written to {folder}"
            )
        names = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    say(f"{name}; read back, it differs from the run by at most {difference:.2g} of the largest score")
    return [folder / file for file in names]


def _theirs(run: Exported, architecture: Architecture, name: str) -> dict[str, Tensor]:
    ours = {key: weight.float().cpu() for key, weight in take_weights(run.model).items()}
    ours |= _scores(ours, run.answers, name)
    found: dict[str, Tensor] = {}
    for match in architecture.matches(run.config.model, run.config.task, name):
        for theirs, weight in zip(match.theirs, match.to_theirs([ours[one] for one in match.ours]), strict=True):
            found[theirs] = weight.contiguous().clone()  # what shares its numbers cannot be saved
    return found


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


def _config(run: Exported, architecture: Architecture, name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": [name],
        "model_type": architecture.model_type,
        "dtype": "float32",
        "torch_dtype": "float32",  # its name in older versions
        **config,
        **token_settings(run.tokenizer, run.config),
        **({} if run.answers is None else write_labels(run.answers)),
    }


class _AsOurs(nn.Module):
    """Their scores as ours are."""

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
    return (folder / CONFIG).is_file() and (folder / WHOLE).is_file()


def read_back(folder: Path, answers: Answers | None) -> nn.Module:
    """The model of an exported folder, called as the run's own; `answers`: the run's."""
    try:
        model = import_found(read_folder(folder)).model
    except Misuse as error:
        raise RunError(f"what was exported cannot be read back: {error}") from None
    return in_use(model if answers is None else _AsOurs(model, answers))


def _compared(model: nn.Module, run: Exported, place: Path) -> float:
    """The largest difference between the run and what lies in the folder, on made-up tokens."""
    back = read_back(place, run.answers)
    vocab = run.tokenizer.vocab_size
    target = vocab if run.target_tokenizer is None else run.target_tokenizer.vocab_size
    return largest_difference(model, back, Shape(vocab=vocab), target, run.config.model.context)


def _readme(run: Exported, name: str) -> str:
    auto = next((auto for end, auto in AUTO.items() if name.endswith(end)), "AutoModel")
    use = {
        "AutoModelForCausalLM": [
            'inputs = tokenizer("A prompt", return_tensors="pt")',
            "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=50)[0], skip_special_tokens=True))",
        ],
        "AutoModelForSequenceClassification": [
            'scores = model(**tokenizer("A text", return_tensors="pt")).logits[0]',
            "print(dict(zip(model.config.id2label.values(), scores.tolist())))",
        ],
        "AutoModelForSeq2SeqLM": [
            'written = model.generate(**tokenizer("A text", return_tensors="pt"))',
            "print(tokenizer.decode(written[0], skip_special_tokens=True))",
        ],
    }.get(auto, ['print(model(**tokenizer("A text", return_tensors="pt")))'])
    what = "translator" if run.config.task == TRANSLATION else run.config.task
    return "\n".join(
        [
            f"# {run.name}",
            "",
            f"{name} ({what}), exported with glassformer {VERSION}.",
            "",
            "```python",
            f"from transformers import {auto}, AutoTokenizer",
            "",
            'tokenizer = AutoTokenizer.from_pretrained(".")',
            f'model = {auto}.from_pretrained(".")',
            *use,
            "```",
            "",
            "A text that spells the name of a special token is read as that token by transformers; glassformer reads",
            "it as text.",
            "",
        ]
    )
