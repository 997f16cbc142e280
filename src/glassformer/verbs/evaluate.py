"""How good a trained model is."""

from collections.abc import Callable
from pathlib import Path

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.sections import DataSettings
from glassformer.data.part import Part, whole
from glassformer.data.source import open_source
from glassformer.data.split import split
from glassformer.data.store import Tokens, pack
from glassformer.data.survey import survey
from glassformer.runs.run import CARD, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.verbs.load import Loaded, load


def _silent(line: str) -> None:
    pass


def evaluate(
    run: str | Path | Run | Loaded,
    data: str | None = None,
    *,
    stride: int | None = None,
    part: str | None = None,
    device: str = "auto",
    say: Callable[[str], None] = _silent,
) -> Evaluation:
    """A full pass over a file, or without one over the part that the run held out: test if it has one."""
    loaded = run if isinstance(run, Loaded) else load(run, device)
    chosen = held_out(loaded, part) if data is None else given(data, loaded.config.data)
    say(
        f"{chosen.name} part: {chosen.documents:,} document{'s' * (chosen.documents != 1)}, "
        f"{chosen.characters:,} characters"
    )
    tokens = pack(chosen, loaded.tokenizer, say)
    say_unknown(tokens, say)
    context = loaded.model.context
    task = LanguageModelling({chosen.name: tokens}, context=context, batch_size=1, start=start_id(loaded))
    say(f"windows of {context} tokens, {stride or context} apart")
    with torch.inference_mode():
        return task.evaluate(loaded.model, chosen.name, stride=stride)


def start_id(loaded: Loaded) -> int:
    return -1 if loaded.tokenizer.start is None else loaded.tokenizer.start


def given(data: str, settings: DataSettings) -> Part:
    return whole(survey(open_source(data, settings)), "given")


def held_out(loaded: Loaded, part: str | None) -> Part:
    """The part that the run did not train on, from the data it was trained on."""
    settings = loaded.config.data
    if settings.path is None:
        raise Misuse(f"{loaded.run.path} does not say what it was trained on: name the data to evaluate on")
    try:
        corpus = split(open_source(settings.path, settings), settings)
    except DataError as error:
        raise DataError(
            f"the data this run was trained on is not there ({error}): name the data to evaluate on"
        ) from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise DataError(
            f"{settings.path} is not the text that this run was trained on ({CARD} has its fingerprint): "
            "what was held out cannot be told; name the data to evaluate on"
        )
    name = part or ("test" if "test" in corpus.parts else "validation")
    if name not in corpus.parts:
        raise Misuse(f"this run has no {name} part; it has {', '.join(corpus.parts)}")
    return corpus.parts[name]


def say_unknown(tokens: Tokens, say: Callable[[str], None]) -> None:
    if tokens.unknown:
        say(
            f"{tokens.unknown:,} of {len(tokens.ids):,} tokens ({tokens.unknown / len(tokens.ids):.2%}) are unknown to "
            "the tokenizer: they are easy to predict and make the loss look better than it is"
        )
