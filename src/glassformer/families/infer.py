"""What the data is for: from the settings that a person gave to a whole configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.config.errors import Say
from glassformer.config.resolve import flatten
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.hub import own_parts
from glassformer.data.io.place import find
from glassformer.families.base import FAMILIES
from glassformer.families.labelling import recognise_images, recognise_table
from glassformer.families.language import recognise_text
from glassformer.families.requests import ConfigRequest, Recognition
from glassformer.families.translation import recognise_pairs


def infer_config(file: Mapping[str, Any], flags: Mapping[str, Any], say: Say) -> Recognition:
    """The whole configuration: what the settings leave open, what the data looks like decides.

    A task that is asked for recognises its own data; else images, pairs of texts and labels are looked for in this
    order, and what has none of these is a text.
    """
    request = ConfigRequest(file, flags, say)
    if request.task is not None:
        family = FAMILIES[request.task]
        return family.recognise(_with_own_parts(request))
    request = _with_own_parts(request)
    return recognise_images(request) or recognise_pairs(request) or recognise_table(request) or recognise_text(request)


def _with_own_parts(request: ConfigRequest) -> ConfigRequest:
    """What a data set of the hub holds out itself becomes settings."""
    path = request.path
    if path is None or not is_hub(path) or find(path) is not None:
        return request
    return replace(request, file={**flatten(request.file), **own_parts(path, request.settings, request.say)})
