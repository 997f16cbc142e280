"""Request and response bodies: OpenAI's API under /v1, our own under /api."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from glassformer.config.views import LookOptions
from glassformer.decoding.options import (
    MAX_REPETITION_PENALTY,
    MAX_TEMPERATURE,
    MAX_TOP_K,
    MIN_REPETITION_PENALTY,
    Sampling,
)
from glassformer.decoding.running import MAX_ALTERNATIVES

MAX_TEXTS = 64
"""Maximum number of texts, prompts or rows in one request."""
MAX_TEXT_CHARS = 100_000
"""Maximum number of characters in one text."""
MAX_TOKENS = 4096
"""Maximum number of tokens to generate for one text."""
MAX_CHOICES = 16
MAX_STOPS = 8
MAX_SEED = 2**62


def _whole(value: Any) -> Any:
    """Return a float with an integral value as an int, because JSON does not distinguish 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole, json_schema_input_type=int)]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
Name = Annotated[str, Field(max_length=200)]
Prompt = Text | Annotated[list[Annotated[Whole, Field(ge=0)]], Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Row = Annotated[dict[str, Any], Field(max_length=10_000)]


class Body(BaseModel):
    """A request body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        """Drop optional fields that are null: clients send null for unset fields."""
        if not isinstance(values, dict):
            return values
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in values.items() if value is not None or name in required}


# --- OpenAI's API ---


class StreamOptions(Body):
    include_usage: bool = False


class WritingBody(Body):
    """Fields shared by completions and chat completions."""

    model: Name | None = Field(None, description="the name of a run; of a server of one run it need not be said")
    temperature: float = Field(1.0, ge=0, le=MAX_TEMPERATURE)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: Whole | None = Field(None, ge=1, le=MAX_TOP_K, description="not OpenAI's: only among the k likeliest")
    repetition_penalty: float = Field(
        1.0,
        ge=MIN_REPETITION_PENALTY,
        le=MAX_REPETITION_PENALTY,
        description="not OpenAI's: above 1, fewer repetitions",
    )
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    n: Whole = Field(1, ge=1, le=MAX_CHOICES)
    seed: Whole | None = Field(None, ge=0, le=MAX_SEED, description="choice i draws by seed + i")
    stop: Text | Annotated[list[Text], Field(max_length=MAX_STOPS)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: Name | None = Field(None, description="taken and ignored")

    @property
    def sampling(self) -> Sampling:
        names = [field.name for field in fields(Sampling) if field.name != "top_p"]
        return Sampling(top_p=self.top_p if self.top_p < 1 else None, **{name: getattr(self, name) for name in names})

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class CompletionBody(WritingBody):
    """Body of POST /v1/completions."""

    prompt: Prompt | Annotated[list[Prompt], Field(min_length=1, max_length=MAX_TEXTS)] = Field(
        "", description="a text or its tokens' ids, or several of them"
    )
    max_tokens: Whole = Field(16, ge=0, le=MAX_TOKENS)
    logprobs: Whole | None = Field(None, ge=0, le=MAX_ALTERNATIVES)
    echo: bool = False

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        given: Any = self.prompt
        return [given] if isinstance(given, str) or isinstance(given[0], int) else given

    @property
    def likeliest(self) -> int | None:
        """Number of likeliest tokens listed beside each token; None: no log-probabilities."""
        return self.logprobs


class ContentPart(Body):
    type: Literal["text"]
    text: Text


class ChatMessage(Body):
    role: Name
    content: Text | Annotated[list[ContentPart], Field(max_length=MAX_TEXTS)]
    name: Name | None = None

    def as_text(self) -> dict[str, str]:
        parts = self.content
        return {"role": self.role, "content": parts if isinstance(parts, str) else "".join(one.text for one in parts)}


class ChatBody(WritingBody):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)]
    max_tokens: Whole | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: Whole | None = Field(None, ge=1, le=MAX_TOKENS)
    logprobs: bool = False
    top_logprobs: Whole | None = Field(None, ge=0, le=MAX_ALTERNATIVES)
    echo: ClassVar[bool] = False

    @property
    def likeliest(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class EmbeddingsBody(Body):
    """Body of POST /v1/embeddings."""

    model: Name | None = None
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] = "float"
    user: Name | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class Error(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """Body of every error."""

    error: Error


# --- our own ---


MAX_IMAGE_CHARS = 12 * 2**20
"""Maximum number of base64 characters of an image."""
Given = Annotated[str, Field(max_length=MAX_IMAGE_CHARS)] | Row
"""An example: a text, a row, or an image's file in base64."""


class RunBody(Body):
    run: Name | None = Field(None, description="the name of a run; of a server of one run it need not be said")


class PredictBody(RunBody):
    """Body of POST /api/predict."""

    examples: Annotated[list[Given], Field(min_length=1, max_length=MAX_TEXTS)] = Field(
        description="texts, or rows by the names of their columns; an image is its file in base64"
    )


class TranslateBody(RunBody):
    """Body of POST /api/translate."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
    beam: Whole | None = Field(None, ge=1, le=64, description="width of the beam search (5)")
    nbest: Whole = Field(1, ge=1, le=64)
    length_penalty: float = Field(1.0, ge=0, le=10)
    temperature: float | None = Field(None, ge=0, le=MAX_TEMPERATURE, description="sample instead of searching")
    top_k: Whole | None = Field(None, ge=1, le=MAX_TOP_K)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: Whole | None = Field(None, ge=0, le=MAX_SEED)
    alignment: bool = Field(False, description="also which source tokens each written token looked at")


class FillBody(RunBody):
    """Body of POST /api/fill."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
    most: Whole = Field(5, ge=1, le=100)


AnyOption = Annotated[Any, WithJsonSchema({"type": ["string", "number", "boolean", "null"]})]


class LookBody(RunBody):
    """Body of POST /api/look."""

    texts: Annotated[list[Given], Field(max_length=MAX_TEXTS)] = []
    view: Name | None = Field(None, description="as `glassformer look --view`; unset, the first that the run has")
    options: dict[str, AnyOption] = Field({}, max_length=len(LookOptions.__dataclass_fields__))
    packed: bool = Field(False, description="arrays as base64, as the pages of glassformer read them")


# --- the playground ---

MAX_CHANGES = 4096


class HeadChange(Body):
    """Factor for the output of a head: 0 switches it off, 1 leaves it unchanged."""

    stack: Name = "self"
    layer: Whole = Field(ge=0)
    head: Whole = Field(ge=0)
    scale: float = Field(ge=0, le=2)


class Patch(Body):
    """Position of the state that is replaced by the other example's: a layer and a token."""

    layer: Whole = Field(ge=0, description="0: what goes into the first layer")
    position: Whole = Field(ge=0)


class SampledBody(RunBody):
    example: Given = Field(description="a text, a row, or an image's file in base64")
    temperature: float = Field(1.0, ge=0, le=MAX_TEMPERATURE)
    top_k: Whole | None = Field(None, ge=1, le=MAX_TOP_K)
    top_p: float | None = Field(None, gt=0, le=1)
    beam: Whole = Field(5, ge=1, le=64, description="width of a translator's beam search")
    changes: list[HeadChange] = Field([], max_length=MAX_CHANGES)
    patch: Patch | None = None
    other: Given | None = Field(None, description="where a patch comes from")
    update: Whole | None = Field(None, ge=0, description="the weights after so many updates (train --keep-checkpoints)")

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p)


class PlayBody(SampledBody):
    """Body of POST /api/play."""

    views: list[Name] = Field([], max_length=16)
    options: dict[Name, dict[str, AnyOption]] = Field({}, max_length=16, description="of views, by their names")


class GrowBody(SampledBody):
    """Body of POST /api/play/grow."""

    path: list[Whole] = Field(max_length=1000, description="ids of the tokens from the root on")
    width: Whole = Field(6, ge=1, le=32)
