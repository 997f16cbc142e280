"""Data divided once, before many runs divide it: what a training would refuse is refused before a folder is made."""

from typing import Any

from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, DataParts
from glassformer.families.prepare import check_validation, split_data


def divided(config: Config, rows: Any) -> DataParts:
    """Its parts, a validation part among them, and labels that can be learned."""
    corpus = split_data(config, rows)
    check_validation(corpus, config)
    FAMILIES[config.task].check_corpus(config, corpus)
    return corpus
