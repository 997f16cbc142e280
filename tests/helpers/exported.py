"""Small models of every kind, as an export takes them."""

from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT
from glassformer.config.resolve import Config, resolve, used_keys
from glassformer.config.sections import TokenizerSettings
from glassformer.data.features.build import MixedFeatures, TextFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.features.tables import CategoryColumn, NumberColumn, TableFeatures
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.onnx.export import export_onnx
from glassformer.models.build import build_language_model, build_masked_model, build_predictor, build_seq2seq
from glassformer.models.modules import BagPredictor
from glassformer.tasks.answers import Answers, Classes
from glassformer.text.tokenizer import Tokenizer
from helpers.kinds import config_of
from helpers.support import randomise, tokens

LETTERS = Tokenizer.train(["abcdefgh i"], TokenizerSettings(kind="char"))
CAPITALS = Tokenizer.train(["ABCDE F"], TokenizerSettings(kind="char"))
CONTEXT = 23
SIZES = {"width": 14, "layers": 1, "heads": 5, "head_width": 6, "hidden": 11, "context": CONTEXT, "kernel": 3}
COLOURS = Classes(("red", "green", "blue"), "softmax")

TABLES = TableFeatures(
    (NumberColumn("height", 10.0, 3.0, 5.0, 15.0, True), NumberColumn("weight", -200.0, 40.0, -300.0, -90.0, False)),
    (CategoryColumn("city", ("Lima", "Oslo", "Rome")), CategoryColumn("size", ("L", "S"))),
)
NUMBERS = TableFeatures(TABLES.numbers, ())
CATEGORIES = TableFeatures((), TABLES.categories)
IMAGES = ImageFeatures((11, 7), (0.3, 0.4, 0.5), (0.2, 0.3, 0.1))


def features_of(kind: str, context: int, framed: bool) -> Features:
    text = TextFeatures(LETTERS, context, framed)
    return {TEXT: text, TABLE: TABLES, IMAGE: IMAGES, MIXED: MixedFeatures(text, TABLES, IMAGES)}[kind]


def reader(kind: str, encoder: str, answers: Answers = COLOURS, features: Features | None = None, **flags: Any) -> Any:
    """What `export_onnx` takes of a reader with random weights."""
    plain = config_of(kind, encoder)
    sizes = {key: value for key, value in SIZES.items() if plain.idle(f"model.{key}") is None}
    letters = {"tokenizer__kind": "char"} if kind in (TEXT, MIXED) else {}
    config = config_of(
        kind, encoder, **{f"model__{key}": value for key, value in {**sizes, **flags}.items()}, **letters
    )
    features = features or features_of(kind, config.model.context, config.framed)
    model = randomise(build_predictor(config.model, shape=features.shape, outputs=answers.outputs)).eval()
    if isinstance(model, BagPredictor):
        model.bag.learn_frequencies([(tokens(9, 13, vocab=LETTERS.vocab_size, seed=9), None)])
    return _what(model, config, LETTERS if kind in (TEXT, MIXED) else None, features=features, answers=answers)


def writer(encoder: str, **flags: Any) -> Any:
    sizes = {key: value for key, value in SIZES.items() if key in used_keys(encoder)}
    settings = {f"model.{key}": value for key, value in {"encoder": encoder, **sizes, **flags}.items()}
    config = resolve({}, {"tokenizer.kind": "char", **settings})
    model = randomise(build_language_model(config.model, vocab=LETTERS.vocab_size)).eval()
    return _what(model, config, LETTERS)


def guesser(**flags: Any) -> Any:
    """A masked language model."""
    said = {"encoder": "transformer", **SIZES, **flags}
    settings = {
        f"model.{key}": value for key, value in said.items() if key in {"encoder", "style", *used_keys("transformer")}
    }
    config = resolve({}, {"task": "masked-language-model", "tokenizer.kind": "char", **settings})
    model = randomise(build_masked_model(config.model, vocab=LETTERS.vocab_size)).eval()
    return _what(model, config, LETTERS)


def translator(encoder: str, decoder: str, **flags: Any) -> Any:
    used = {*used_keys(encoder), *used_keys(decoder)}
    sizes = {key: value for key, value in SIZES.items() if key in used}
    said = {"encoder": encoder, "decoder": decoder, "decoder_layers": 1, **sizes, **flags}
    settings = {f"model.{key}": value for key, value in said.items()}
    config = resolve({}, {"task": "translation", "tokenizer.kind": "char", "tokenizer.shared": False, **settings})
    vocabularies = {"source_vocab": LETTERS.vocab_size, "target_vocab": CAPITALS.vocab_size}
    model = randomise(build_seq2seq(config.model, **vocabularies)).eval()
    return _what(model, config, LETTERS, target_tokenizer=CAPITALS)


def _what(model: nn.Module, config: Config, tokenizer: Tokenizer | None, **more: Any) -> dict[str, Any]:
    rest = {"target_tokenizer": None, "features": None, "answers": None, **more}
    return {"model": model, "config": config, "tokenizer": tokenizer, **rest}


def export(what: dict[str, Any], folder: Path, **more: Any) -> list[Path]:
    return export_onnx(ExportedRun(**what), folder, **more)
