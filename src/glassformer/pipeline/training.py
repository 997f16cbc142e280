"""One training run, from a request to a finished run folder: resolve, prepare, build, fit, finish."""

from glassformer.config.errors import TrainingFailed
from glassformer.config.messages import listening, say
from glassformer.pipeline.build import build_run, prepare_run
from glassformer.pipeline.finish import finish
from glassformer.pipeline.fit import fit
from glassformer.pipeline.request import Trained, TrainRequest
from glassformer.pipeline.resolve import Session, has_ended, resolve_request
from glassformer.training.distributed.processes import is_peer_lost
from glassformer.training.events import as_notes


def train_run(request: TrainRequest) -> Trained:
    """Train a model, or resume a run. A run that has finished already is returned unchanged."""
    session = Session.of(request)
    with listening(as_notes(session.listen)), session.resources:
        resolved = resolve_request(session)
        config, run, processes = resolved.config, resolved.resumed, session.processes
        if run is not None and has_ended(run, config, draft=request.draft):
            card = run.card()
            say(f"{run.path} is {card['status']}: {card['steps']:,} updates, nothing is left to do")
            return Trained.from_card(run, card)
        try:
            if processes.join(resolved.device, alone=config.training.parallel == "fsdp"):
                session.resources.callback(processes.leave)
            built = prepare_run(session, resolved)
            session.remarks.extend(built.prepared.corpus.remarks)
            build_run(session, built)
            return finish(session, built, fit(session, built))
        except RuntimeError as error:
            if processes.world == 1 or not is_peer_lost(error):
                raise
            raise TrainingFailed("another process of this training is gone") from error
