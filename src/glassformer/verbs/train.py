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
    """Train a model and save it as a run.

    `data` is a path, the name of a data set, or data in memory. Data in memory is a list of texts, dicts, or pairs
    (text, label) or (source, target). It may also be a pandas or polars DataFrame, a Dataset, or arrays (images,
    labels). It is written to a file in a folder `data` beside the run. Without `keep_data`, the file is deleted at the
    end, and later commands must be given the data.

    `settings` are short names of the command line (`steps=500`), dotted keys (`**{"model.layers": 2}`) or whole
    sections (`training=gf.Training(lr=0.001)` or `{"lr": 0.001}`).

    `model` is a name (`lstm`, `bag:counts`), the settings of a model (`gf.LSTM(layers=2)`) or a user's own model:

    - an nn.Module that maps B×T tokens and their mask to a score for each class (or to one number)
    - its class, which gets the arguments among vocab, outputs and context that its `__init__` names
    - a function that makes the module from the vocabulary size and the number of scores

    With `from_run`, training starts from the body and the tokens of that run. A `draft` is one run of many: it does not
    evaluate the test part, and has no pictures and no report. With `refit`, a second training run follows on all rows
    except the test rows. It takes as many updates as the best weights took. Its card shows the scores of the first run,
    which is kept in `held-out`.

    `minutes` limits the time from reading the data to the report, without the refit. `clock` measures it in seconds
    since the command started (unset: since this call). `resume` continues the run in `out` (unset: the last run). With
    `data` and `out`, it starts a run if there is none, and does nothing if the run has finished.

    `log_to` names one logger or a list of loggers (`tensorboard`, `wandb`, `mlflow`, `trackio`). A resumed run keeps
    its loggers unless others are named, or none (`[]`). `listen` is called with every event. Unset, a notebook shows a
    progress bar, and skipped rows or a failing logger are a warning.
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
