"""Data divided once, before many runs divide it: what a training would refuse is refused before a folder is made."""

from glassformer.config.resolve import Config
from glassformer.data.io.pictures import Pictures
from glassformer.data.io.table import Table
from glassformer.data.split.documents import TextCorpus
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.data.split.pairs import PairCorpus
from glassformer.families.examples import answers_of
from glassformer.families.prepare import divide, held_out_for_validation


def divided(config: Config, table: Table | Pictures | None) -> TextCorpus | LabelledCorpus | PairCorpus:
    """Its parts, a validation part among them, and labels that can be learned."""
    corpus = divide(config, table)
    held_out_for_validation(corpus, config)
    if isinstance(corpus, LabelledCorpus):
        answers_of(corpus, config.training.loss)
    return corpus
