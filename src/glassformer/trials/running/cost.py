"""What a model costs: the memory that its training takes, and the seconds of one use."""

import contextlib
import itertools
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any

import torch

from glassformer.config.say import silent
from glassformer.data.packing.store import pack
from glassformer.data.split.documents import Part
from glassformer.data.split.labelled import Labelled
from glassformer.data.split.pairs import Pairs
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import LanguageFamily, LoadedLanguageModel
from glassformer.families.masked import LoadedMasked, MaskedFamily
from glassformer.families.translation import LoadedTranslator, TranslationFamily
from glassformer.tasks.windows import stack_rows

WARM_UP, TIMED, LONGEST = 3, 50, 3.0
"""Examples that are not timed, examples that are, and seconds after which it is enough."""
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


# --- seconds ---


@torch.inference_mode()
def seconds_per_example(loaded: Loaded, part: Any) -> float | None:
    """Seconds that one example alone takes, from raw text to answer: the median of some; of a language model, a token
    written, of a masked one a window read. None where its family does not say what a use is.
    """
    times: list[float] = []
    began = last = time.perf_counter()
    for _ in itertools.islice(uses(loaded.family, loaded, part), WARM_UP + TIMED):
        now = time.perf_counter()
        times.append(now - last)
        if now - began > LONGEST:
            break
        last = time.perf_counter()
    return statistics.median(times[WARM_UP:] or times) if times else None


@singledispatch
def uses(family: Family, loaded: Any, part: Any) -> Iterator[object]:
    """Uses of a run on a part of the data, one a step."""
    return iter(())


@uses.register
def _(family: LanguageFamily, loaded: LoadedLanguageModel, part: Part) -> Iterator[object]:
    start = loaded.tokenizer.start
    prompt = [0 if start is None else start]
    never = list(loaded.tokenizer.specials)
    return generate(loaded.model, [prompt], Sampling(), most=WARM_UP + TIMED, never=never)


@uses.register
def _(family: MaskedFamily, loaded: LoadedMasked, part: Part) -> Iterator[object]:
    ids = pack(part, loaded.tokenizer, silent).ids[: loaded.model.context]
    window = stack_rows(loaded.model.head.weight.device, [ids])
    return (loaded.model(window) for _ in itertools.count())


@uses.register
def _(family: TranslationFamily, loaded: LoadedTranslator, part: Pairs) -> Iterator[object]:
    return (loaded.translate(source) for source in itertools.cycle(part.sources))


@uses.register
def _(family: LabellingFamily, loaded: LoadedPredictor, part: Labelled) -> Iterator[object]:
    return (loaded.predict_part(part.select("given", [row])) for row in itertools.cycle(range(len(part))))


# --- memory ---


class PeakMemory:
    """The most that this process held since the start of a training, beyond what it held then; on a GPU, CUDA's."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        with contextlib.suppress(OSError):  # the peak so far may be that of reading the data
            RESET.write_text("5")
        self.before = _process_bytes("VmRSS")

    def bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.cuda else max(0, _process_bytes("VmHWM") - self.before)


def _process_bytes(name: str) -> int:
    """Bytes of this process: now (VmRSS), or at the most (VmHWM)."""
    if STATUS.is_file():
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of macOS in bytes
    return most if sys.platform == "darwin" else most * 1024
