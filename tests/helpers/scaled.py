"""Models for tests of `scaling`."""

from glassformer.experiments.alike import alike
from glassformer.models.build import build_language_model
from glassformer.models.language_model import LanguageModel


def tiny(name: str) -> LanguageModel:
    return build_language_model(alike([name], width=16, layers=1, vocab=13, context=64)[name], vocab=13, seed=0)
