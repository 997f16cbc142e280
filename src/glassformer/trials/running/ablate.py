"""What the Transformer is made of, part by part: each is taken out, all else equal."""

from typing import Any

from glassformer.config.resolve import Config

PARTS: tuple[dict[str, Any], ...] = (
    {"model.residual": False},
    {"model.norm": "none"},
    {"model.qk_norm": False},
    {"model.scale": False, "model.qk_norm": False},
    {"model.causal_mask": False},
    {"model.positions": "none"},
    {"model.feed_forward": False},
    {"model.output_projection": False},
    {"model.heads": 1},
)
"""The parts of the lectures. Scores are left unscaled together with the norm of queries and keys: that norm bounds
the scores whatever the weights, and the claim is about scores that grow with the width of a head. What the norm alone
is worth is the row before it. Without residual connections no branch starts at zero
(`models/initialise.py`): such a model could not learn at all, which is not what is claimed of it."""

MASK = "model.causal_mask"
UNMASKED = "without the mask it reads the token it is to predict: its loss is no honest one"


def ablations(config: Config) -> list[dict[str, Any]]:
    """What to change, one row each: nothing at first, then all that this model has and can do without."""
    return [{}, *(part for part in PARTS if _is_there(part, config))]


def _is_there(part: dict[str, Any], config: Config) -> bool:
    return all(config.idle(key) is None for key in part) and any(config.get(key) != part[key] for key in part)
