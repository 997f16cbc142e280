"""How a run answers a line of text, as `glassformer predict` asks it: a label, a number, a token, a translation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from glassformer.config.errors import Misuse, Say
from glassformer.families.base import Family
from glassformer.families.embedding import EmbeddingFamily, LoadedEmbedder
from glassformer.families.language import LanguageFamily, LoadedLanguageModel
from glassformer.families.masked import LoadedMasked, MaskedFamily
from glassformer.families.translation import LoadedTranslator, TranslationFamily

Answer = dict[str, Any]


@dataclass(frozen=True)
class AnswerOptions:
    """How lines are to be answered."""

    run: str
    """The run, as a person named it."""
    top: int
    """Tokens for each that is hidden."""
    say: Say


@singledispatch
def answer_function(family: Family, loaded: Any, options: AnswerOptions) -> Callable[[str], Answer]:
    """What turns a line into what the run says of it, as JSON."""

    def answer(text: str) -> Answer:
        prediction = loaded.predict(text, say=options.say)
        return prediction.to_dict() if hasattr(prediction, "to_dict") else {"text": text, "value": prediction}

    return answer


@answer_function.register
def _(family: LanguageFamily, loaded: LoadedLanguageModel, options: AnswerOptions) -> Callable[[str], Answer]:
    """The next token."""

    def answer(text: str) -> Answer:
        expected = loaded.probabilities(text)[-1].expected
        return {"text": text, "label": expected[0][0], "probability": expected[0][1], "probabilities": dict(expected)}

    return answer


@answer_function.register
def _(family: MaskedFamily, loaded: LoadedMasked, options: AnswerOptions) -> Callable[[str], Answer]:
    return lambda text: loaded.fill(text, most=options.top, say=options.say).to_dict()


@answer_function.register
def _(family: TranslationFamily, loaded: LoadedTranslator, options: AnswerOptions) -> Callable[[str], Answer]:
    return lambda text: {"text": text, "translation": loaded.translate(text, say=options.say).text}


@answer_function.register
def _(family: EmbeddingFamily, loaded: LoadedEmbedder, options: AnswerOptions) -> Callable[[str], Answer]:
    raise Misuse(
        f"{loaded.run.path} gives a vector for each text and predicts nothing: glassformer embed {options.run} TEXT"
    )
