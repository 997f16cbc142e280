"""Complete settings for tests of single components."""

from typing import Any

from glassformer.config.sections import TrainingSettings


def training_settings(**values: Any) -> TrainingSettings:
    return TrainingSettings.complete(values)
