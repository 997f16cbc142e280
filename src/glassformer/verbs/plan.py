"""Estimate the memory, speed and time of a training run (`gf.plan`), and compare the sizes of models."""

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
"""Default memory per GPU in GiB for an estimate without hardware."""
GPU_SPEED = 400.0
"""Default speed per GPU in TFLOP/s: about 40 % of an H100's peak in bf16."""
IN_NODE, BETWEEN_NODES = 400.0, 50.0
"""Default bandwidth per GPU in GB/s: with NVLink, and with a 400 Gb/s network adapter per GPU."""


@check_arguments
@takes_listener
def plan(
    data: str | Path | None = None,
    *,
    gpus: int | None = None,
    device_memory: float | None = None,
    training_tokens: float | None = None,
    flops: float | None = None,
    bandwidth: float | None = None,
    price: float | None = None,
    probe: bool = True,
    config: str | Path | None = None,
    say: Say = say,
    **settings: Any,
) -> Plan:
    """Estimate memory, speed and time of a training run with these settings, which are those of `train`.

    `probe`: measure the speed for a few seconds. `device_memory`: plan for this many GiB instead of the free memory.

    `gpus`: compute the estimate for this many GPUs, which need not exist on this machine. `device_memory` is then the
    memory per GPU in GiB, and `flops` the speed per GPU in TFLOP/s. `bandwidth` is in GB/s between GPUs, and `price` is
    the cost per GPU hour. `training_tokens`: plan for a language model and this many tokens, without data or
    measurements.
    """
    paper = {"--flops": flops, "--bandwidth": bandwidth, "--price": price}
    _check(data, gpus, training_tokens, {"--device-memory": device_memory, **paper})
    said = next((flag for flag, value in paper.items() if value is not None), None)
    if said is not None and gpus is None and training_tokens is None:
        raise Misuse(f"{said} goes with --gpus or --training-tokens: here the speed is measured")
    flags = flags_of(data, settings)
    if training_tokens is not None:
        planned = from_tokens(flags, config, int(training_tokens), gpus=gpus or 1)
    else:
        planned = from_data(flags, config, gpus=gpus)
    if gpus is not None or training_tokens is not None:
        gpus = gpus or 1
        bandwidth = bandwidth or (IN_NODE if gpus <= NODE else BETWEEN_NODES)
        return cluster_plan(planned, gpus, device_memory or GPU_MEMORY, flops or GPU_SPEED, bandwidth, price)
    return local_plan(planned, device_memory, probe)


@check_arguments
@takes_listener
def plan_models(
    data: str | Path | None = None,
    *,
    models: str | Iterable[str],
    training_tokens: float | None = None,
    config: str | Path | None = None,
    say: Say = say,
    **settings: Any,
) -> ParameterTable:
    """Return the parameters of several models side by side, with the FLOPs of each per token (without text, per row).

    `models`: comma-separated names or a list of names, as for `model` in `train`. A setting of the `model` section
    applies to the models that have it. `training_tokens`: number of tokens for language models, instead of data.
    """
    _check(data, None, training_tokens, {})
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
        with listening(None if name == names[0] else silent):  # report the data only once
            planned = (
                from_data(own, config, gpus=None)
                if training_tokens is None
                else from_tokens(own, config, int(training_tokens), gpus=1)
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


def _check(
    data: str | Path | None, gpus: int | None, training_tokens: float | None, more: Mapping[str, float | None]
) -> None:
    if data is not None and training_tokens is not None:
        raise Misuse("DATA and --training-tokens both set the number of tokens: give one of them")
    for flag, value in {"--gpus": gpus, "--training-tokens": training_tokens, **more}.items():
        if value is not None and not 0 < value < math.inf:
            raise Misuse(f"{flag} is {value:g}, but must be above 0 and finite")
    if training_tokens is not None and training_tokens < 1:
        raise Misuse(f"--training-tokens is {training_tokens:g}, but must be 1 or more")
