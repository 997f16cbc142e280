"""The views of a run, by name: how each is made of what was request, and which a run has."""

from collections.abc import Callable

from glassformer.config.presets import MASKED, MULTILABEL, VECTORS
from glassformer.config.views import VIEWS
from glassformer.families.base import Loaded
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.masked import LoadedMasked
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.positions import placed
from glassformer.inspection.states import has_states
from glassformer.inspection.views import of_heads as views_of_heads
from glassformer.inspection.views import of_texts as views_of_texts
from glassformer.inspection.views.learning import learning
from glassformer.inspection.views.numbers import step, walk_through
from glassformer.inspection.views.of_heads import OF_ONE_TEXT, OF_WHAT_IS_READ
from glassformer.inspection.views.request import LookRequest
from glassformer.models.build_input import words_of
from glassformer.models.language_model import LanguageModel
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.token_model import TokenModel
from glassformer.rendering.view import View
from glassformer.runs import history

OURS = (LanguageModel, Predictor, BagPredictor, Seq2Seq)
"""Models whose layers are known here; what a person's own is made of, only it knows."""

WITH_CONTEXT = (TokenModel, Predictor, Seq2Seq)
"""Models in which the vector of a word depends on what stands around it."""

MAKERS: dict[str, Callable[[LookRequest], View]] = {
    "alignment": views_of_heads.alignment,
    "attention": views_of_heads.attention,
    "patches": views_of_heads.patches,
    "lens": views_of_texts.lens,
    "next": views_of_texts.next_tokens,
    "decided": views_of_texts.decided,
    "states": views_of_texts.states,
    "pooling": views_of_texts.pooling,
    "numbers": walk_through,
    "step": step,
    "roles": views_of_heads.roles,
    "links": views_of_heads.links,
    "worth": views_of_heads.worth,
    "word": views_of_texts.word,
    "nearest": views_of_texts.nearest,
    "versus": views_of_texts.versus,
    "positions": views_of_texts.positions,
    "merges": views_of_texts.merges,
    "pairs": views_of_texts.pairs,
    "learning": lambda request: learning(request.loaded, request.text, request.example),
}


def _has_stack(loaded: Loaded, stacks: tuple[str, ...]) -> bool:
    return any(stack in stacks for stack in sizes_of(loaded.model))


def _has_patches(loaded: Loaded) -> bool:
    embed = getattr(loaded.model, "embed", None)
    return bool(sizes_of(loaded.model)) and getattr(getattr(embed, "image", embed), "cut", None) is not None


NEEDS: dict[str, Callable[[Loaded], bool]] = {
    "alignment": lambda loaded: _has_stack(loaded, ("cross",)),
    "attention": lambda loaded: bool(sizes_of(loaded.model)),
    "patches": _has_patches,
    "lens": lambda loaded: not isinstance(loaded, LoadedPredictor | LoadedEmbedder),
    "next": lambda loaded: isinstance(loaded, LoadedLanguageModel),
    "states": lambda loaded: has_states(loaded.model),
    "pooling": lambda loaded: isinstance(loaded.model, Predictor | BagPredictor),
    "decided": lambda loaded: not isinstance(loaded, LoadedMasked | LoadedEmbedder),
    "numbers": lambda loaded: isinstance(loaded.model, OURS) and loaded.config.task not in (MULTILABEL, VECTORS),
    "step": lambda loaded: loaded.config.task not in (MASKED, MULTILABEL, VECTORS),
    "roles": lambda loaded: _has_stack(loaded, OF_ONE_TEXT),
    "links": lambda loaded: loaded.tokenizer is not None and _has_stack(loaded, OF_WHAT_IS_READ),
    "worth": lambda loaded: bool(sizes_of(loaded.model)) and not isinstance(loaded, LoadedEmbedder),
    "word": lambda loaded: loaded.tokenizer is not None and isinstance(loaded.model, WITH_CONTEXT),
    "nearest": lambda loaded: isinstance(loaded.model, BagPredictor) or words_of(loaded.model) is not None,
    "versus": lambda loaded: not isinstance(loaded, LoadedMasked),
    "positions": lambda loaded: placed(loaded.model) is not None,
    "merges": lambda loaded: loaded.tokenizer is not None and loaded.tokenizer.kind == "bpe",
    "pairs": lambda loaded: isinstance(loaded, LoadedLanguageModel),
    "learning": lambda loaded: bool(history.steps_of(loaded.run)),
    "report": lambda loaded: "imported" not in loaded.run.card(),
}
"""What a run must be, for a view that not every run has."""


def views_of(loaded: Loaded) -> list[str]:
    """Those that a run has."""
    return [name for name in VIEWS if name not in NEEDS or NEEDS[name](loaded)]
