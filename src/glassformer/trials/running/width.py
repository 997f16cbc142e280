"""Models of like size: the width at which each has about so many parameters, found without a weight being made."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

import torch

from glassformer.config.errors import Say, SettingError
from glassformer.config.resolve import Config, resolve
from glassformer.families.base import Prepared
from glassformer.families.load import build_model
from glassformer.models.build import parameter_count
from glassformer.trials.running.shared_settings import SharedSettings

NEAR = 0.15
"""So far from what is asked for, as a part of it, a model may be without a word."""
WIDEST = 2**15
KEYS = ("model.width", "model.head_hidden")
"""What makes a model larger: its width, or, where it has none, that of its hidden layer."""


def width_for(
    wanted: int, models: Mapping[str, Mapping[str, Any]], shared: SharedSettings, say: Say
) -> dict[str, tuple[str, int]]:
    """The setting that decides each model's size, and the value at which it has about `wanted` parameters.

    `models`: the settings of each. A model whose size follows from the data alone is left out, and said.
    """
    prepared = shared.prepared()
    found = {}
    for name, settings in models.items():
        config = _resolved(settings, shared)
        key = next((key for key in KEYS if config.idle(key) is None), None)
        if key is None:
            count = _count(config, prepared)
            say(f"{name}: its {count:,} parameters follow from the data: --parameters {wanted:,} does not change them")
            continue
        step = _step(config) if key == "model.width" else 1

        def count_at(size: int, key: str = key, settings: Mapping[str, Any] = settings) -> int:
            return _count(_resolved({**settings, key: size}, shared), prepared)

        size, count = _nearest(wanted, step, count_at)
        found[name] = (key, size)
        far = abs(count - wanted) > NEAR * wanted
        say(
            f"{name}: {key} {size} gives {count:,} parameters"
            + (f", which is not near {wanted:,}: it is as near as it gets" if far else "")
        )
    return found


def _resolved(settings: Mapping[str, Any], shared: SharedSettings) -> Config:
    kind = {"data.kind": shared.config.data.kind}
    return resolve({}, {**settings, "task": shared.config.task, **kind}, strict=False)


def _step(config: Config) -> int:
    """What a width must be a multiple of: the heads, each with an even number of its own."""
    with_heads = "transformer" in (config.model.encoder, config.model.decoder)
    return 2 * config.model.heads if with_heads else 2


def _nearest(wanted: int, step: int, count_at: Callable[[int], int]) -> tuple[int, int]:
    """The multiple of `step` at which the count, which grows with it, is nearest."""
    sizes = range(step, WIDEST + 1, step)
    place = bisect_left(sizes, wanted, hi=len(sizes) - 1, key=count_at)
    counts = {size: count_at(size) for size in sizes[max(0, place - 1) : place + 1]}
    return min(counts.items(), key=lambda one: abs(one[1] - wanted))


def _count(config: Config, prepared: Prepared) -> int:
    """The parameters of a model that has shapes and no numbers."""
    try:
        with torch.device("meta"):
            model = build_model(config, prepared)
    except SettingError as error:
        raise SettingError(f"--parameters: {error}") from None
    return parameter_count(model)
