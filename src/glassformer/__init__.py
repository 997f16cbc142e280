"""Build, train, compare and look inside sequence models, on your own text.

`import glassformer as gf`; the public names load on first use, so that importing costs nothing.
"""

import os
import sys

if os.path.basename("".join(sys.argv[:1])) in ("-m", "glassformer", "gf"):
    # Before any other import (Python has imported os already): refuse to grade where a submission could be imported.
    _words = sys.argv[1:]
    _grades = "grade" in (_words if _words[:1] and _words[0].startswith("-") else _words[:1])
    if _grades or any(word.startswith("--check") for word in _words):
        _files = [word.removeprefix("--check=") for word in _words if word.endswith((".py", ".ipynb"))]
        _folders = {os.path.dirname(file) or "." for file in ("", *_files)}
        _paths = {path for entry in sys.path if os.path.isdir(path := entry or ".")}
        if any(os.path.samefile(one, path) for one in _folders if os.path.isdir(one) for path in _paths):
            sys.stderr.write(
                "error: Python would import modules from the working directory or the folder of a submission: one "
                "called csv.py would run outside the sandbox. Use the command `glassformer grade`, or `python -P -m "
                "glassformer grade`, and remove this folder and empty entries from PYTHONPATH.\n"
            )
            sys.exit(2)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.config.loggers import disable_telemetry, wait_passively
from glassformer.config.presets import VERSION

if TYPE_CHECKING:
    from glassformer.bricks.attention import HasAttention as HasAttention
    from glassformer.bricks.attention import Memory as Memory
    from glassformer.bricks.own import register_brick as register_brick
    from glassformer.bricks.tap import Tap as Tap
    from glassformer.config.encoders import EncoderInfo as EncoderInfo
    from glassformer.config.errors import GlassformerError as GlassformerError
    from glassformer.config.limits import limits as limits
    from glassformer.config.model_section import CNN as CNN
    from glassformer.config.model_section import GRU as GRU
    from glassformer.config.model_section import LSTM as LSTM
    from glassformer.config.model_section import MLP as MLP
    from glassformer.config.model_section import RNN as RNN
    from glassformer.config.model_section import Average as Average
    from glassformer.config.model_section import Bag as Bag
    from glassformer.config.model_section import LayerSettings as LayerSettings
    from glassformer.config.model_section import Linear as Linear
    from glassformer.config.model_section import SequenceSettings as SequenceSettings
    from glassformer.config.model_section import Transformer as Transformer
    from glassformer.config.model_section import Window as Window
    from glassformer.config.plugins import use as use
    from glassformer.config.sections import TrainingSettings as Training  # noqa: F401
    from glassformer.config.setting import open_setting as setting  # noqa: F401
    from glassformer.encoders.base import Encoder as Encoder
    from glassformer.encoders.base import Recomputes as Recomputes
    from glassformer.encoders.base import State as State
    from glassformer.encoders.registry import register_encoder as register_encoder
    from glassformer.encoders.registry import register_model as register_model
    from glassformer.families.base import Family as Family
    from glassformer.families.base import register_family as register_family
    from glassformer.families.capabilities import Embeds as Embeds
    from glassformer.families.capabilities import Fills as Fills
    from glassformer.families.capabilities import Generates as Generates
    from glassformer.families.capabilities import Labels as Labels
    from glassformer.families.capabilities import Translates as Translates
    from glassformer.families.load import load as load
    from glassformer.inspection.capture import capture as capture
    from glassformer.inspection.change import Change as Change
    from glassformer.inspection.change import replace as replace
    from glassformer.inspection.change import scale as scale
    from glassformer.inspection.change import zero as zero
    from glassformer.inspection.intervene import intervene as intervene
    from glassformer.inspection.views.registry import register_view as register_view
    from glassformer.models.capabilities import HasWordVectors as HasWordVectors
    from glassformer.models.capabilities import LayerOutputs as LayerOutputs
    from glassformer.reporting.report import report as report
    from glassformer.serving.server import play as play
    from glassformer.serving.server import serve as serve
    from glassformer.teaching.brick_check.check import check_brick as check_brick
    from glassformer.teaching.grade import grade as grade
    from glassformer.teaching.lesson import lesson as lesson
    from glassformer.text.tokenizer import Tokenizer as Tokenizer
    from glassformer.trials.compare import compare as compare
    from glassformer.trials.cross_validation import cross_validate as cross_validate
    from glassformer.trials.tune import tune as tune
    from glassformer.verbs.check import check as check
    from glassformer.verbs.check import doctor as doctor
    from glassformer.verbs.estimators import Classifier as Classifier
    from glassformer.verbs.estimators import Regressor as Regressor
    from glassformer.verbs.evaluate import errors as errors
    from glassformer.verbs.evaluate import evaluate as evaluate
    from glassformer.verbs.exchange import export as export
    from glassformer.verbs.exchange import import_model as import_model
    from glassformer.verbs.files import embed_file as embed_file
    from glassformer.verbs.files import predict_file as predict_file
    from glassformer.verbs.files import translate_file as translate_file
    from glassformer.verbs.look import look as look
    from glassformer.verbs.plan import plan as plan
    from glassformer.verbs.plan import plan_models as plan_models
    from glassformer.verbs.scaling import scaling as scaling
    from glassformer.verbs.train import train as train

__version__ = VERSION
disable_telemetry()  # before any optional package is imported
wait_passively()  # before torch is imported

_PUBLIC = {
    "Change": "glassformer.inspection.change",
    "Classifier": "glassformer.verbs.estimators",
    "Embeds": "glassformer.families.capabilities",
    "Encoder": "glassformer.encoders.base",
    "EncoderInfo": "glassformer.config.encoders",
    "Family": "glassformer.families.base",
    "Fills": "glassformer.families.capabilities",
    "Generates": "glassformer.families.capabilities",
    "GlassformerError": "glassformer.config.errors",
    "HasAttention": "glassformer.bricks.attention",
    "HasWordVectors": "glassformer.models.capabilities",
    "Labels": "glassformer.families.capabilities",
    "LayerOutputs": "glassformer.models.capabilities",
    "Memory": "glassformer.bricks.attention",
    "Recomputes": "glassformer.encoders.base",
    "Regressor": "glassformer.verbs.estimators",
    "State": "glassformer.encoders.base",
    "Tap": "glassformer.bricks.tap",
    "Tokenizer": "glassformer.text.tokenizer",
    "Training": "glassformer.config.sections:TrainingSettings",
    "Translates": "glassformer.families.capabilities",
    "capture": "glassformer.inspection.capture",
    "check": "glassformer.verbs.check",
    "check_brick": "glassformer.teaching.brick_check.check",
    "compare": "glassformer.trials.compare",
    "cross_validate": "glassformer.trials.cross_validation",
    "doctor": "glassformer.verbs.check",
    "embed_file": "glassformer.verbs.files",
    "errors": "glassformer.verbs.evaluate",
    "evaluate": "glassformer.verbs.evaluate",
    "export": "glassformer.verbs.exchange",
    "grade": "glassformer.teaching.grade",
    "import_model": "glassformer.verbs.exchange",
    "intervene": "glassformer.inspection.intervene",
    "lesson": "glassformer.teaching.lesson",
    "limits": "glassformer.config.limits",
    "load": "glassformer.families.load",
    "look": "glassformer.verbs.look",
    "plan": "glassformer.verbs.plan",
    "plan_models": "glassformer.verbs.plan",
    "play": "glassformer.serving.server",
    "predict_file": "glassformer.verbs.files",
    "register_brick": "glassformer.bricks.own",
    "register_encoder": "glassformer.encoders.registry",
    "register_family": "glassformer.families.base",
    "register_model": "glassformer.encoders.registry",
    "register_view": "glassformer.inspection.views.registry",
    "replace": "glassformer.inspection.change",
    "report": "glassformer.reporting.report",
    "scale": "glassformer.inspection.change",
    "scaling": "glassformer.verbs.scaling",
    "serve": "glassformer.serving.server",
    "setting": "glassformer.config.setting:open_setting",
    "train": "glassformer.verbs.train",
    "translate_file": "glassformer.verbs.files",
    "tune": "glassformer.trials.tune",
    "use": "glassformer.config.plugins",
    "zero": "glassformer.inspection.change",
}

_PUBLIC |= dict.fromkeys(
    (
        "Transformer",
        "LSTM",
        "GRU",
        "RNN",
        "CNN",
        "Bag",
        "Average",
        "Window",
        "Linear",
        "MLP",
        "SequenceSettings",
        "LayerSettings",
    ),
    "glassformer.config.model_section",
)

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    module, _, other_name = _PUBLIC[name].partition(":")
    return getattr(import_module(module), other_name or name)


def __dir__() -> list[str]:
    return sorted(__all__)
