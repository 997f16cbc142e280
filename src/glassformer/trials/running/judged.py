"""A trained model, judged on a part of the data, and timed in use."""

import itertools
import statistics
import time
from collections.abc import Iterator

import torch

from glassformer.config.say import silent
from glassformer.data.packing.store import pack
from glassformer.data.split.labelled import Labelled
from glassformer.data.split.pairs import Pairs
from glassformer.data.split.part import Part
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.families.base import Loaded
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.masked import LoadedMasked
from glassformer.families.requests import EvaluateOptions
from glassformer.families.translation import LoadedTranslator
from glassformer.tasks.base import Evaluation
from glassformer.tasks.windows import rows_on

AnyPart = Part | Labelled | Pairs
WARM_UP, TIMED, LONGEST = 3, 50, 3.0
"""Examples that are not timed, examples that are, and seconds after which it is enough."""


@torch.inference_mode()
def judged(loaded: Loaded, part: AnyPart) -> Evaluation:
    """A model on a part of its own data, or of other data of the same kind."""
    return loaded.family.evaluate_part(loaded, part, EvaluateOptions(), silent).evaluation


@torch.inference_mode()
def in_use(loaded: Loaded, part: AnyPart) -> float | None:
    """Seconds that one example alone takes, from raw text to answer: the median of some; of a language model, a token
    written, of a masked one a window read.
    """
    times: list[float] = []
    began = last = time.perf_counter()
    for _ in itertools.islice(_uses(loaded, part), WARM_UP + TIMED):
        now = time.perf_counter()
        times.append(now - last)
        if now - began > LONGEST:
            break
        last = time.perf_counter()
    return statistics.median(times[WARM_UP:] or times) if times else None


def _uses(loaded: Loaded, part: AnyPart) -> Iterator[object]:
    """Each step of it is one use."""
    if isinstance(loaded, LoadedLanguageModel):
        start = loaded.tokenizer.start
        prompt = [0 if start is None else start]
        never = list(loaded.tokenizer.specials)
        yield from generate(loaded.model, [prompt], Sampling(), most=WARM_UP + TIMED, never=never)
    elif isinstance(loaded, LoadedMasked):
        assert isinstance(part, Part)
        ids = pack(part, loaded.tokenizer, silent).ids[: loaded.model.context]
        window = rows_on(loaded.model.head.weight.device, [ids])
        yield from (loaded.model(window) for _ in itertools.count())
    elif isinstance(loaded, LoadedTranslator):
        assert isinstance(part, Pairs)
        yield from (loaded.translate(source) for source in itertools.cycle(part.sources))
    else:
        assert isinstance(loaded, LoadedPredictor)
        assert isinstance(part, Labelled)
        for row in itertools.cycle(range(len(part))):
            one = part.select("given", [row])
            yield loaded.predict_part(one)
