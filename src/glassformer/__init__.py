"""Build, train, compare and look inside sequence models, on your own text.

`import glassformer as gf`; the public names load on first use, so that importing costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.config.version import VERSION

if TYPE_CHECKING:
    from glassformer.config.errors import GlassformerError as GlassformerError
    from glassformer.encoders.registry import register_encoder as register_encoder
    from glassformer.inside.capture import capture as capture
    from glassformer.text.tokenizer import Tokenizer as Tokenizer
    from glassformer.trials.compare import compare as compare
    from glassformer.trials.folds import cross_validate as cross_validate
    from glassformer.trials.tune import tune as tune
    from glassformer.verbs.check.run import check as check
    from glassformer.verbs.doctor.run import doctor as doctor
    from glassformer.verbs.errors import errors as errors
    from glassformer.verbs.evaluate import evaluate as evaluate
    from glassformer.verbs.export import export as export
    from glassformer.verbs.importing import import_model as import_model
    from glassformer.verbs.load import load as load
    from glassformer.verbs.look import look as look
    from glassformer.verbs.plan.run import plan as plan
    from glassformer.verbs.report import report as report
    from glassformer.verbs.scaling.measure import scaling as scaling
    from glassformer.verbs.train import train as train

__version__ = VERSION

_PUBLIC = {
    "GlassformerError": "glassformer.config.errors",
    "Tokenizer": "glassformer.text.tokenizer",
    "capture": "glassformer.inside.capture",
    "check": "glassformer.verbs.check.run",
    "compare": "glassformer.trials.compare",
    "cross_validate": "glassformer.trials.folds",
    "doctor": "glassformer.verbs.doctor.run",
    "errors": "glassformer.verbs.errors",
    "evaluate": "glassformer.verbs.evaluate",
    "export": "glassformer.verbs.export",
    "import_model": "glassformer.verbs.importing",
    "load": "glassformer.verbs.load",
    "look": "glassformer.verbs.look",
    "plan": "glassformer.verbs.plan.run",
    "register_encoder": "glassformer.encoders.registry",
    "report": "glassformer.verbs.report",
    "scaling": "glassformer.verbs.scaling.measure",
    "train": "glassformer.verbs.train",
    "tune": "glassformer.trials.tune",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
