"""Weights by name, out of a model and back into one. Of weights that are shared, the first name stands for all."""

from torch import Tensor, nn

from glassformer.config.errors import RunError


def take_weights(model: nn.Module) -> dict[str, Tensor]:
    names: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, value in held.items():
        names.setdefault(id(value), name)
    return {name: held[name].detach() for name in names.values()}


def put_weights(model: nn.Module, found: dict[str, Tensor], source: str) -> None:
    """Weights into a model that they must fit exactly; `source` is what an error calls them."""
    wanted = take_weights(model)
    if missing := sorted(wanted.keys() - found.keys()):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RunError(f"{source} does not fit the model: it lacks {missing[0]}{more}")
    if extra := sorted(found.keys() - model.state_dict().keys()):
        raise RunError(f"{source} does not fit the model: it holds {extra[0]}, which the model has not")
    for name in sorted(wanted):
        if found[name].shape != wanted[name].shape:
            has, wants = tuple(found[name].shape), tuple(wanted[name].shape)
            raise RunError(f"{source} does not fit the model: {name} is {has}, but must be {wants}")
    model.load_state_dict(found, strict=False)
