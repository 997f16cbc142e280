"""Rows of a comparison that begin from other runs: fine-tuned, and with all but the head left as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.config.say import Say
from glassformer.families.base import FAMILIES
from glassformer.finetuning.settings import fixed_settings
from glassformer.finetuning.sources import FinetuneSources, weights_digest
from glassformer.trials.running.shared_settings import SharedSettings, settings_for

TUNED, FROZEN = "fine-tuned", "frozen"


@dataclass(frozen=True)
class FinetunedRow:
    """A model that is trained further."""

    name: str
    own: Mapping[str, Any]
    """Its settings, by dotted key."""
    weights: str
    """A digest of what it begins from."""
    fixed: Mapping[str, Any]
    """What the run decides."""

    def settings(self, shared: SharedSettings, varied: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of a training, without shared ones that are the run's own."""
        whole, _ = settings_for(shared, {**self.own, **varied})
        return {key: value for key, value in whole.items() if key in self.own or key in varied or key not in self.fixed}


def finetuned_rows(runs: Sequence[str], shared: SharedSettings, say: Say) -> list[FinetunedRow]:
    """One row for each run, and where labels are learned, one more in which only the head is."""
    task, has_head = shared.config.task, FAMILIES[shared.config.task].labels_examples
    if runs and has_head and shared.config.data.kind != TEXT:
        raise Misuse("--from: these examples are more than texts, and only what reads texts alone can be begun from")
    rows = []
    for run, name in zip(runs, short_names(runs), strict=True):
        sources = FinetuneSources.of(run, None)
        fixed = fixed_settings(sources, task)
        own = {"model.encoder": sources.first.config.model.encoder, "model.from_run": run}
        digest = weights_digest(Path(run))
        if left := [key for key in shared.settings if key in fixed and shared.settings[key] != fixed[key]]:
            say(f"{', '.join(left)}: {name} has its own: left out there")
        rows.append(FinetunedRow(f"{name} {TUNED}", own, digest, fixed))
        if has_head:
            rows.append(FinetunedRow(f"{name} {FROZEN}", {**own, "training.last_blocks": 0}, digest, fixed))
    return rows


def short_names(runs: Sequence[str]) -> list[str]:
    """The last parts of their paths, as many as it takes to tell them apart."""
    parts = [Path(run).parts for run in runs]
    for count in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return list(runs)
