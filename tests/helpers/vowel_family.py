"""A family of tasks in one file, as a person would write it: it says how many vowels a line has.

Nothing of it is known to the package; all that it needs is what `Family` asks for.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.config.resolve import Config
from glassformer.families.base import EvaluatedPart, Family, Loaded, ModelCall, Prepared, Processor
from glassformer.families.requests import (
    ConfigRequest,
    Embedded,
    EvaluateOptions,
    Example,
    ModelInput,
    Recognition,
    evenly_chosen,
)
from glassformer.rendering.panels import Table
from glassformer.rendering.view import View
from glassformer.tasks.base import Batch, Evaluation, Task
from glassformer.text.tokenizer import Tokenizer

VOWELS = "aeiou"


# --- its data ---


@dataclass(frozen=True)
class Lines:
    name: str
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class LineCorpus:
    fingerprint: str
    parts: dict[str, Lines]
    remarks: tuple[str, ...]

    def report(self) -> str:
        return "; ".join(self.remarks)


def read_lines(path: str) -> list[str]:
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line]
    if len(lines) < 10:
        raise DataError(f"{path} holds {len(lines)} lines: ten are the least")
    return lines


# --- its task ---


@dataclass(frozen=True)
class LineBatch(Batch):
    ids: Tensor
    mask: Tensor
    counts: Tensor

    @property
    def size(self) -> int:
        return len(self.counts)

    count = size

    @property
    def tokens(self) -> int:
        return int(self.mask.sum())

    def rows(self, first: int, last: int) -> "LineBatch":
        return LineBatch(*(tensor[first:last] for tensor in (self.ids, self.mask, self.counts)))

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        return self.ids.to(device), self.mask.to(device), self.counts.to(device)


class CountVowels(Task):
    name = "count-vowels"
    unit = "per line"

    def __init__(self, parts: Mapping[str, Lines], tokenizer: Tokenizer, batch_size: int, seed: int) -> None:
        self.parts, self.tokenizer, self.batch_size, self.seed = parts, tokenizer, batch_size, seed
        if "train" in parts:
            self.steps_per_epoch = len(parts["train"]) / batch_size

    def encode(self, texts: Sequence[str]) -> LineBatch:
        ids = [torch.tensor(self.tokenizer.encode(text)) for text in texts]
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-1)
        counts = torch.tensor([float(sum(map(text.count, VOWELS))) for text in texts])
        return LineBatch(padded.clamp(min=0), padded >= 0, counts)

    def batch(self, step: int) -> LineBatch:
        train = self.parts["train"].texts
        rows = np.random.default_rng((self.seed, step)).integers(len(train), size=self.batch_size)
        return self.encode([train[row] for row in rows])

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        ids, mask, counts = tensors
        return (model(ids, mask) - counts).square().sum()

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        texts = self.parts[part].texts
        ids, mask, counts = self.encode(texts).tensors(next(model.parameters()).device)
        with torch.no_grad():
            said = model(ids, mask)
        errors = (said - counts).square()
        rmse = float(errors.mean().sqrt())
        rows = zip(texts, said.tolist(), counts.tolist(), errors.tolist(), strict=True)
        records = [{"text": text, "predicted": one, "target": two, "loss": loss} for text, one, two, loss in rows]
        metrics = {"loss": float(errors.mean()), "rmse": rmse}
        return Evaluation(metrics, "rmse", True, f"rmse {rmse:.3f}", records=records)


class Counter(nn.Module):
    """A number for each character, summed."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.worth = nn.Embedding(vocab, 1)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return (self.worth(tokens).squeeze(-1) * mask).sum(1)


# --- the family ---


@dataclass(frozen=True, repr=False)
class LoadedCounter(Loaded):
    tokenizer: Tokenizer

    def predict(self, texts: str | Sequence[str]) -> Any:
        if isinstance(texts, str):
            return self.predict([texts])[0]
        calls = [self.family.encode_example(self, text, target=None, beam=1).inputs for text in texts]
        with torch.no_grad():
            return [float(self.model(*call)) for call in calls]


class VowelFamily(Family):
    task = "count-vowels"
    title = "A counter of vowels"
    noun = "line"
    primary, lower_is_better = "rmse", True
    labels_examples = True
    text_loss = False
    loaded_class = LoadedCounter

    def recognise(self, request: ConfigRequest) -> Recognition:
        return Recognition(request.resolve({"task": self.task}))

    def split_data(self, config: Config, rows: Any = None) -> LineCorpus:
        lines = read_lines(str(config.data.path))
        tenth = len(lines) // 10
        parts = {"test": lines[:tenth], "validation": lines[tenth : 2 * tenth], "train": lines[2 * tenth :]}
        if not config.data.test_fraction:
            parts["train"] += parts.pop("test")
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return LineCorpus(digest, {name: Lines(name, texts) for name, texts in parts.items()}, [f"{len(lines)} lines"])

    def prepare(self, config: Config, corpus: LineCorpus, known: Processor) -> Prepared:
        texts = corpus.parts["train"].texts
        size = sum(map(len, texts))
        tokenizer = known.tokenizer or Tokenizer.train(texts, config.tokenizer, total_bytes=size)
        task = CountVowels(corpus.parts, tokenizer, config.training.batch_size, config.training.seed)
        tokens = {name: sum(map(len, part.texts)) for name, part in corpus.parts.items()}
        return Prepared(corpus=corpus, tokenizer=tokenizer, tokens=tokens, task=task)

    def whole_part(self, loaded: Loaded, options: EvaluateOptions) -> Lines:
        return Lines("given", read_lines(str(options.data)))

    def build_model(self, config: Config, processor: Processor) -> Counter:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            return Counter(processor.shape.vocab)

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        pass

    def evaluate_part(self, loaded: Any, part: Lines, options: EvaluateOptions) -> EvaluatedPart:
        task = CountVowels({part.name: part}, loaded.tokenizer, 1, 0)
        return EvaluatedPart(loaded, part, task.encode(part.texts), task.evaluate(loaded.model, part.name))

    def encode_example(self, loaded: Any, example: Example, *, target: str | None, beam: int) -> ModelInput:
        ids = loaded.tokenizer.encode(str(example))
        names = [loaded.tokenizer.shown(id) for id in ids]
        call = (torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
        return ModelInput(inputs=call, text=str(example), tokens=names, ids=ids, words=range(len(ids)))

    def held_out_examples(
        self, loaded: Any, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[ModelInput]:
        texts = prepared.task.parts[part].texts
        for row in evenly_chosen(np.arange(len(texts)), count):
            yield self.encode_example(loaded, texts[row], target=None, beam=1)

    def random_call(self, loaded: Any, generator: torch.Generator, max_tokens: int) -> ModelCall:
        ids = torch.randint(loaded.tokenizer.vocab_size, (1, max_tokens), generator=generator)
        return ids, torch.ones_like(ids, dtype=torch.bool)

    def embed(self, loaded: Any, examples: Sequence[Example], *, tokens: bool) -> list[Embedded]:
        return [Embedded(str(text), np.array([loaded.predict(str(text))], np.float32)) for text in examples]

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return None, ""


gf.register_family(VowelFamily(), like="language-model")


@gf.register_view("letters", shows="how many vowels are counted", needs=lambda loaded: loaded.family.noun == "line")
def letters(request: Any) -> View:
    return View(
        "Vowels", [Table(columns=["line", "vowels"], rows=[[request.text, request.loaded.predict(request.text)]])]
    )
