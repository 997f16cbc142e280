"""Initialisation of a new model with the weights of other runs."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.config.errors import RunError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.config.presets import has_decoder, labels_examples
from glassformer.config.resolve import Config
from glassformer.finetuning.sources import FinetuneSource, FinetuneSources
from glassformer.models.weights import take_weights
from glassformer.tasks.answers import Answers
from glassformer.training.optimiser import refuse_too_many, starred


def take_from_runs(model: nn.Module, config: Config, answers: Answers | None) -> JsonObject:
    """Copy weights of other runs into a new model; return the card's entry about them."""
    sources = FinetuneSources.of(config.model.from_run, config.model.decoder_from)
    refuse_too_many(model, config.training.last_blocks)
    names = _first_names(model)
    wanted = take_weights(model)
    taken: dict[str, Tensor] = {}
    for source in sources.runs:
        held = source.run.read_weights()
        keeps_head = source is sources.body and _keeps_head(source, config, answers, held, wanted)
        for name, weight in held.items():
            there = _renamed(name, source, config, sources.whole, keeps_head=keeps_head)
            if there in names:
                taken[names[there]] = _fitting(weight, wanted[names[there]], name, source)
        if keeps_head and labels_examples(config.task):
            say(f"from {source.run.path}: the same classes, so its head is kept")
    _refuse_lacking(wanted, taken, sources, config)
    with torch.no_grad():
        for name, weight in taken.items():
            wanted[name].copy_(weight)
    new = _summed_up(wanted, taken)
    runs = " and ".join(str(source.run.path) for source in sources.runs)
    numbers, all_numbers = (sum(map(Tensor.numel, weights.values())) for weights in (taken, wanted))
    say(
        f"from {runs}: {len(taken)} of {len(wanted)} weights ({numbers:,} of {all_numbers:,} numbers); "
        f"new: {', '.join(new) or 'nothing'}"
    )
    card = {**sources.first.about(), "new": new}
    return card if len(sources.runs) == 1 else {**card, "decoder": sources.runs[1].about()}


def _first_names(model: nn.Module) -> dict[str, str]:
    """Return the first name of each weight by all its names, since weights may be shared."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in model.state_dict(keep_vars=True).items()}


def _renamed(name: str, source: FinetuneSource, config: Config, whole: bool, *, keeps_head: bool) -> str | None:
    """Return the name that a weight of another run gets in the new model; None: it is not copied."""
    part, rest = name.split(".", 1)
    if whole and has_decoder(config.task):
        return name
    if part in ("embed", "embed_source"):
        side = "" if not has_decoder(config.task) else "_target" if source.flag == "--decoder-from" else "_source"
        return f"embed{side}.{rest}"
    if part == "encoder":
        return f"decoder.{rest}" if source.flag == "--decoder-from" else name
    if source.flag == "--decoder-from":
        return name  # a weight of its head
    same_pool = labels_examples(config.task) and source.config.model.pool == config.model.pool
    stays = {"head": keeps_head, "transform": keeps_head, "pool": same_pool}
    return name if stays.get(part) else None


Weights = Mapping[str, Tensor]


def _keeps_head(
    source: FinetuneSource, config: Config, answers: Answers | None, held: Weights, wanted: Weights
) -> bool:
    """Return whether to keep the head: if the task, the labels and the settings of the head are the same."""
    if source.task != config.task or has_decoder(config.task):
        return False
    if not labels_examples(config.task):
        return True
    same_labels = answers is not None and source.card.get("labels") == answers.to_json()
    settings = ("model.pool", "model.head_layers", "model.head_hidden", "model.head_activation")
    alike = all(config.get(key) == source.config.get(key) for key in settings)
    return same_labels and alike and _head_shapes(held) == _head_shapes(wanted)


def _head_shapes(weights: Weights) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights.items() if name.startswith("head.")}


def _fitting(weight: Tensor, wanted: Tensor, name: str, source: FinetuneSource) -> Tensor:
    """Return a weight of the right shape; learned positions are cut to the new context length."""
    if name.endswith("positions.table.weight") and len(weight) > len(wanted) and weight.shape[1:] == wanted.shape[1:]:
        weight = weight[: len(wanted)]
    if weight.shape != wanted.shape:
        raise RunError(f"{source} does not fit: {name} is {tuple(weight.shape)}, but must be {tuple(wanted.shape)}")
    return weight


def _refuse_lacking(wanted: Weights, taken: Weights, sources: FinetuneSources, config: Config) -> None:
    """Refuse a run whose file lacks weights of the body."""
    parts: tuple[str, ...] = ("embed.", "encoder.")
    if has_decoder(config.task):
        parts = () if sources.body is None else ("embed_source.", "encoder.")
        parts = ("embed_", "encoder.", "decoder.", "head.") if sources.whole else parts
    lacking = sorted(name for name in wanted if name.startswith(parts) and name not in taken)
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise RunError(f"{sources.first} does not fit the model: it lacks {lacking[0]}{more}")


def _summed_up(wanted: Weights, taken: Weights) -> list[str]:
    """Return the new weights as few names, such as head, decoder.blocks.*.cross_attention."""
    kept = {starred(name) for name in taken}
    new: dict[str, None] = {}
    for name in (name for name in wanted if name not in taken):
        parts = starred(name).split(".")
        heads = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        new[next(head for head in heads if not any(f"{other}.".startswith(f"{head}.") for other in kept))] = None
    return list(new)
