"""Models for tests of `scaling`."""

from glassformer.experiments.models import same_size_models
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel


def tiny(name: str) -> LanguageModel:
    return build_language_model(
        same_size_models([name], width=16, layers=1, vocab=13, context=64)[name], vocab=13, seed=0
    )
