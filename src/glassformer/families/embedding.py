"""Models made elsewhere that give a vector for each text: `embed` is what they are for, and nothing of them is trained
here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import nn

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import VECTORS
from glassformer.config.resolve import Config
from glassformer.data.features.build import text_features
from glassformer.data.features.inputs import Features
from glassformer.families.base import Loaded, Processor
from glassformer.families.examples import ExampleFamily
from glassformer.families.requests import ConfigRequest, EvaluateOptions
from glassformer.models.build import build_vectors
from glassformer.models.reader import TextPredictor
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class LoadedEmbedder(Loaded):
    """A model that gives a vector for each text."""

    model: TextPredictor
    tokenizer: Tokenizer
    features: Features


class EmbeddingFamily(ExampleFamily):
    task = VECTORS
    title = "A model of vectors of texts"
    verb = "embed"
    is_trained = False
    loaded_class = LoadedEmbedder

    def recognise(self, request: ConfigRequest) -> NoReturn:
        raise SettingError(
            "--task vectors is nothing to train: it is what some imported models do (glassformer import SOURCE); with "
            "--from such a run, train another task"
        )

    def read_processor(self, run: Run, config: Config) -> Processor:
        tokenizer = run.tokenizer()
        assert tokenizer is not None
        return Processor(tokenizer=tokenizer, features=text_features(tokenizer, config))

    def build_model(self, config: Config, processor: Processor) -> nn.Module:
        return build_vectors(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        raise Misuse(
            f"{loaded.run.path} gives a vector for each text, and there is no right one to compare it with: "
            f"glassformer embed {loaded.run.path} TEXT"
        )

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[None, str]:
        return None, ""

    def _untrained(self, *args: Any, **more: Any) -> NoReturn:
        raise Misuse(f"{self.task} is nothing to train: there is no data of it, and no right answer")

    split_data = prepare = whole_part = evaluate_part = held_out_examples = _untrained


FAMILIES = (EmbeddingFamily(),)
