"""What the tests of runs share: texts to predict, and a run that predicts."""

from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.families.labelling import LoadedPredictor
from glassformer.verbs.train import Trained

TEXTS = ["the soup was good and lovely", "the soup", "the film 3 was awful", "the plain word that nobody knows " * 9]


def loaded(run: Trained | Path, **more: Any) -> LoadedPredictor:
    found = gf.load(run, "cpu", **more)
    assert isinstance(found, LoadedPredictor)
    return found
