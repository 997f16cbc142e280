"""Train a model on a text, a table or images: `gf.train`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import SettingError
from glassformer.config.messages import silent, warn
from glassformer.config.model_section import ModelSettings
from glassformer.data.wording import LOST
from glassformer.families.base import OwnModel
from glassformer.families.memory_data import takes_memory
from glassformer.notebook.display import in_notebook
from glassformer.pipeline.refit import train_and_refit, waits_for_refit
from glassformer.pipeline.request import Trained as Trained
from glassformer.pipeline.request import TrainRequest
from glassformer.pipeline.training import train_run
from glassformer.training.budget import Clock, Stopwatch
from glassformer.training.events import Listener
from glassformer.training.progress import NotebookTraining, warn_of


@takes_memory
@check_arguments
def train(
    data: Any = None,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    model: str | ModelSettings | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    draft: bool = False,
    refit: bool = False,
    keep_data: bool = True,
    listen: Listener = silent,
    command: str | None = None,
    clock: Clock | None = None,
    log_to: str | Sequence[str] | None = None,
    **settings: Any,
) -> Trained:
    """Train a model and leave a run.

    `data` is a path, the name of a data set, or what a program holds: a list of texts, of (text, label) or (source,
    target), of dicts, a DataFrame of pandas or polars, a Dataset, or arrays (images, labels). That is written to a file
    in a folder `data` beside the run, which reads it again from there; without `keep_data` it is gone at the end, and
    later verbs ask for it.

    `settings` are the short names of the command line (`steps=500`), dotted keys (`**{"model.layers": 2}`) or whole
    sections (`training=gf.Training(lr=0.001)` or `{"lr": 0.001}`). `model` is a name (`lstm`, `bag:counts`), the
    settings of a model (`gf.LSTM(layers=2)`), an nn.Module of one's own that maps
    B×T tokens and their mask to a score for each class (or one number), its class, which gets those of vocab, outputs
    and context that its `__init__` names, or a function that makes it from the size of the vocabulary and the number
    of scores. With `from_run`, the body and the tokens of that run are taken. A `draft`
    is one of many: its test part is not looked at, and it leaves no pictures and no report. With `refit`, a last
    training follows on all rows but those of the test, for as long as the best weights took; the run that it leaves
    tells the scores of the one before, which is kept in `held-out`. `minutes` are for all of it, from reading to the
    report, as told by `clock`, the seconds since the command began (unset: since this call); a refit is on top.
    `resume` goes on with the run in `out` (unset: the last one); with `data` and `out`, it starts where there is none,
    and does nothing where it has finished. `log_to` names loggers (`tensorboard`, `wandb`, `mlflow`, `trackio`), one or
    a list; a run that goes on is logged where it was, unless others are named, or none (`[]`). `listen` is told
    every event; unset, a notebook shows a bar, and rows that are skipped or a logger that fails are a warning.
    """
    request = TrainRequest(
        data=data,
        out=out,
        config=config,
        model=model,
        resume=resume,
        overwrite=overwrite,
        draft=draft,
        listen=listen,
        command=command,
        log_to=log_to,
        settings=settings,
        clock=clock or Stopwatch(),
    )
    if listen is not silent:
        return _train(request, refit)
    if in_notebook():
        with NotebookTraining() as shown:
            trained = _train(replace(request, listen=shown), refit)
            shown.end(trained.line)
    else:
        trained = _train(replace(request, listen=warn_of), refit)
    for remark in trained.remarks:
        if remark.startswith(LOST):
            warn(remark)
    return trained


def _train(request: TrainRequest, refit: bool) -> Trained:
    if not refit and not (request.resume and waits_for_refit(request.out)):
        return train_run(request)
    if request.draft:
        raise SettingError("a draft is one of many: it has no refit")
    return train_and_refit(request)
