"""Weights by name, out of a model and back into one. Of weights that are shared, the first name stands for all."""

from collections.abc import Collection, Mapping

from torch import Tensor, nn

from glassformer.config.errors import RunError

RENAMED_WEIGHTS = {"recall": "cross_attention", "around_recall": "around_cross_attention"}
"""Parts of names, between the dots, as older runs have them, and as they are now."""
FORMER = {new: old for old, new in RENAMED_WEIGHTS.items()}


def current_name(name: str) -> str:
    """The name, or pattern of names, of a weight or of what is captured, as it is now."""
    return ".".join(RENAMED_WEIGHTS.get(part, part) for part in name.split("."))


def former_name(name: str) -> str:
    """The same name as older runs have it."""
    return ".".join(FORMER.get(part, part) for part in name.split("."))


def with_current_names(tensors: Mapping[str, Tensor], known: Collection[str]) -> dict[str, Tensor]:
    """Tensors of any run, by the names that they have now, as `name` or `name/what`.

    `known`: the names in a model; they stay as they are, for a person's own module may call its parts what it likes.
    """
    return {name if name.partition("/")[0] in known else current_name(name): tensor for name, tensor in tensors.items()}


def take_weights(model: nn.Module) -> dict[str, Tensor]:
    names: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, value in held.items():
        names.setdefault(id(value), name)
    return {name: held[name].detach() for name in names.values()}


def put_weights(model: nn.Module, found: dict[str, Tensor], source: str) -> None:
    """Weights into a model that they must fit exactly; `source` is what an error calls them."""
    wanted, names = take_weights(model), model.state_dict().keys()
    found = with_current_names(found, names)
    if missing := sorted(wanted.keys() - found.keys()):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RunError(f"{source} does not fit the model: it lacks {missing[0]}{more}")
    if extra := sorted(found.keys() - names):
        raise RunError(f"{source} does not fit the model: it holds {extra[0]}, which the model has not")
    for name in sorted(wanted):
        if found[name].shape != wanted[name].shape:
            has, wants = tuple(found[name].shape), tuple(wanted[name].shape)
            raise RunError(f"{source} does not fit the model: {name} is {has}, but must be {wants}")
    model.load_state_dict(found, strict=False)
