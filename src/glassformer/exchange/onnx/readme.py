"""The page beside exported graphs: what goes in, what comes out, and a program that runs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import jinja2

from glassformer.config.presets import VECTORS
from glassformer.data.features.build import MixedFeatures, TextFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.tables import TableFeatures
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.onnx.graph import Graph
from glassformer.models.modules import Seq2Seq, TokenModel
from glassformer.tasks.answers import Labels, Scale
from glassformer.text.tokenizer import Tokenizer

TEMPLATE = "README.md.jinja"


@dataclass(frozen=True)
class TextInput:
    """How a text becomes ids, for the page."""

    tokenizer: Tokenizer
    before: tuple[int, ...]
    after: tuple[int, ...]
    context: int

    @property
    def room(self) -> int:
        """Tokens of a text that fit between those around it."""
        return self.context - len(self.before) - len(self.after)

    @property
    def pad(self) -> int:
        return self.tokenizer.pad or 0

    @property
    def mask(self) -> int:
        """What stands in place of a token that is to be guessed."""
        return self.tokenizer.mask if self.tokenizer.mask is not None else self.tokenizer.unk or 0


def readme(run: ExportedRun, graphs: Sequence[Graph]) -> str:
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(files("glassformer.exchange.onnx").joinpath(TEMPLATE).read_text("utf-8"))
    kinds = [run.features]
    if isinstance(run.features, MixedFeatures):
        kinds = [run.features.text, run.features.table, run.features.image]
    target = run.target_tokenizer or run.tokenizer
    model = run.model
    return template.render(
        run=run,
        config=run.config,
        graphs=graphs,
        program=_program(run),
        text=_text_input(run, next((kind for kind in kinds if isinstance(kind, TextFeatures)), None)),
        table=next((kind for kind in kinds if isinstance(kind, TableFeatures)), None),
        image=next((kind for kind in kinds if isinstance(kind, ImageFeatures)), None),
        mixed=isinstance(run.features, MixedFeatures),
        answers=_answers(run),
        target=target,
        never=[] if target is None else target.never(target.vocab_size),
        rows=model.head.out_features if isinstance(model, TokenModel | Seq2Seq) else 0,
    )


def _program(run: ExportedRun) -> str:
    """What the program on the page does."""
    if run.answers is not None:
        return "predict"
    if isinstance(run.model, Seq2Seq):
        return "translate"
    if run.config.task == VECTORS:
        return "embed"
    assert isinstance(run.model, TokenModel)
    return "generate" if run.model.encoder.causal else "fill"


def _answers(run: ExportedRun) -> str:
    """What the scores become; classes and labels lie in labels.json by these names."""
    if run.answers is None:
        return ""
    return "values" if isinstance(run.answers, Scale) else "labels" if isinstance(run.answers, Labels) else "classes"


def _text_input(run: ExportedRun, features: TextFeatures | None) -> TextInput | None:
    if features is not None:
        roles = features.tokenizer.roles
        around = (roles.opening, roles.closing) if features.framed else ((), ())
        return TextInput(features.tokenizer, *around, features.context)
    if run.answers is not None or run.tokenizer is None:
        return None
    roles = run.tokenizer.roles
    before = roles.source if isinstance(run.model, Seq2Seq) else roles.opening
    return TextInput(run.tokenizer, before, roles.closing, run.config.model.context)
