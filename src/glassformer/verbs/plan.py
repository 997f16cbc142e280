"""`glassformer plan`: before a training, what it will take. `gf.plan` in Python."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.encoders import model_name
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import Say, listening, say, silent, takes_listener
from glassformer.config.resolve import used_keys
from glassformer.planning.build import about_plan, cluster_plan, local_plan
from glassformer.planning.parameter_table import ParameterTable, model_size
from glassformer.planning.plan import Plan
from glassformer.planning.setup import flags_of, from_data, from_tokens
from glassformer.planning.sharding import NODE

GPU_MEMORY = 80.0
"""GiB of a GPU on paper, unless said."""
GPU_SPEED = 400.0
"""TFLOP/s that it is taken to reach: about 40 % of what an H100 can do in bf16."""
IN_NODE, BETWEEN_NODES = 400.0, 50.0
"""GB/s that come to it from others: by NVLink, and by a network adapter of 400 Gb/s for each."""


@check_arguments
@takes_listener
def plan(
    data: str | Path | None = None,
    *,
    gpus: int | None = None,
    memory: float | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    bandwidth: float | None = None,
    price: float | None = None,
    probe: bool = True,
    config: str | Path | None = None,
    say: Say = say,
    **settings: Any,
) -> Plan:
    """What a training with these settings, those of `train`, will take.

    `probe`: with the speed of a few seconds of it. `memory`: so many GiB instead of what this machine has. `gpus`: on
    paper, for so many GPUs that need not be here; then `memory` is that of each, `flops` the TFLOP/s that each reaches,
    `bandwidth` the GB/s that come to each from others, and `price` that of an hour of one. `tokens`: a language model
    on so many tokens, instead of data, also on paper.
    """
    paper = {"--flops": flops, "--bandwidth": bandwidth, "--price": price}
    _check(data, gpus, tokens, {"--memory": memory, **paper})
    said = next((flag for flag, value in paper.items() if value is not None), None)
    if said is not None and gpus is None and tokens is None:
        raise Misuse(f"{said} goes with --gpus or --tokens: here the speed is measured")
    flags = flags_of(data, settings)
    if tokens is not None:
        planned = from_tokens(flags, config, int(tokens), gpus=gpus or 1)
    else:
        planned = from_data(flags, config, gpus=gpus)
    if gpus is not None or tokens is not None:
        gpus = gpus or 1
        bandwidth = bandwidth or (IN_NODE if gpus <= NODE else BETWEEN_NODES)
        return cluster_plan(planned, gpus, memory or GPU_MEMORY, flops or GPU_SPEED, bandwidth, price)
    return local_plan(planned, memory, probe)


@check_arguments
@takes_listener
def plan_models(
    data: str | Path | None = None,
    *,
    models: str | Iterable[str],
    tokens: float | None = None,
    config: str | Path | None = None,
    say: Say = say,
    **settings: Any,
) -> ParameterTable:
    """Return the parameters of several models side by side, and the FLOPs of each per token (without text, per row).

    `models`: names with commas between them, or a list of names, as `train` takes `model`. A setting of `model` goes to
    the models that have it. `tokens`: number of tokens for language models, instead of data.
    """
    _check(data, None, tokens, {})
    names, flags = _model_names(models), flags_of(data, settings)
    if "model.encoder" in flags:
        raise Misuse("--model and --models: give one of them")
    used = {name: used_keys(model_name(name)[0]) for name in names}
    users = {key: [name for name in names if key[6:] in used[name]] for key in flags if key.startswith("model.")}
    unused = next((key for key, users_of_key in users.items() if not users_of_key), None)
    if unused is not None:
        raise SettingError(f"{unused} is not used by any of the models {', '.join(names)}")
    sizes = []
    for name in names:
        encoder, variant = model_name(name)
        own = {key: value for key, value in flags.items() if name in users.get(key, names)}
        own |= {"model.encoder": encoder, **{f"model.{key}": value for key, value in variant.items()}}
        with listening(None if name == names[0] else silent):  # the data is the same
            planned = (
                from_data(own, config, gpus=None) if tokens is None else from_tokens(own, config, int(tokens), gpus=1)
            )
        sizes.append(model_size(name, planned))
    notes = [f"{key} applies to {', '.join(some)}." for key, some in users.items() if len(some) < len(names)]
    return ParameterTable(about_plan(planned), sizes, notes)


def _model_names(models: str | Iterable[str]) -> list[str]:
    words = models.split(",") if isinstance(models, str) else models
    names = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not names:
        raise Misuse("--models names no model; name at least one, such as bag,lstm,transformer")
    return names


def _check(data: str | Path | None, gpus: int | None, tokens: float | None, more: Mapping[str, float | None]) -> None:
    if data is not None and tokens is not None:
        raise Misuse("DATA is read and its tokens counted, --tokens stands for data that nobody has read: give one")
    for flag, value in {"--gpus": gpus, "--tokens": tokens, **more}.items():
        if value is not None and not 0 < value < math.inf:
            raise Misuse(f"{flag} is {value:g}, but must be above 0 and finite")
    if tokens is not None and tokens < 1:
        raise Misuse(f"--tokens is {tokens:g}, but must be 1 or more")
