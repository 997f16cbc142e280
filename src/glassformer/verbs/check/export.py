"""What a run was exported to, against the run."""

from glassformer.verbs.check.checked import DoesNotApply, Found
from glassformer.verbs.check.subject import Subject

EXPORT = "export"
"""Where in a run's folder it would be."""


def exported(subject: Subject) -> Found:
    if not (subject.loaded.run.path / EXPORT).exists():
        raise DoesNotApply("not exported")
    raise DoesNotApply(f"nothing is known of how to read {subject.loaded.run.path / EXPORT}")
