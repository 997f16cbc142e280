"""Data divided once, before many runs divide it: what a training would refuse is refused before a folder is made."""

from glassformer.config.resolve import Config
from glassformer.data.labelled import LabelledCorpus
from glassformer.data.pictures import Pictures
from glassformer.data.split import Corpus
from glassformer.data.table import Table
from glassformer.data.translations import PairCorpus
from glassformer.verbs.examples import answers_of
from glassformer.verbs.prepare import divide, held_out_for_validation


def divided(config: Config, table: Table | Pictures | None) -> Corpus | LabelledCorpus | PairCorpus:
    """Its parts, a validation part among them, and labels that can be learned."""
    corpus = divide(config, table)
    held_out_for_validation(corpus, config)
    if isinstance(corpus, LabelledCorpus):
        answers_of(corpus, config.training.loss)
    return corpus
