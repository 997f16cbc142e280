"""The parameters of a model by what they are for, found by walking its modules."""

from collections import Counter

from torch import nn

from glassformer.bricks.attention import Attention
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import WordVectors
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.memory_attention import MemoryAttention
from glassformer.bricks.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.bricks.pooling import AttentionPool
from glassformer.bricks.positions import LearnedPositions, OneHotPositions
from glassformer.bricks.recurrent import Recurrent
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.models.inputs import ColumnTokens, MixedTokens
from glassformer.models.modules import Transform

PARTS: dict[type[nn.Module], str] = {
    WordVectors: "word vectors",
    BagOfWords: "bag of words",
    Patches: "patches",
    ConvolutionStack: "convolutions",
    ColumnTokens: "columns",
    MixedTokens: "kinds of tokens",
    LearnedPositions: "positions",
    OneHotPositions: "positions",
    FeedForward: "feed-forward",
    LayerNorm: "norms",
    RMSNorm: "norms",
    BatchNorm: "norms",
    Recurrent: "recurrent layers",
    MemoryAttention: "attention to the source",
    RecurrentDecoder: "recurrent decoder: start and join",
    CnnEncoder: "convolutions",
    WindowEncoder: "window",
    AttentionPool: "pool",
    Transform: "head",
}
"""What a module's own weights are for, and those of the modules in it that are not named here."""

OF_ATTENTION = {"query": "queries W^Q", "key": "keys W^K", "value": "values W^V", "output": "output W^O"}


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """All numbers by part; shared ones count once, at their first part."""
    parts: Counter[str] = Counter()
    for path, weight in model.named_parameters():
        module, part = model, "other"
        for name in path.split(".")[:-1]:
            child = module.get_submodule(name)
            part = _part(module, name, child, part)
            module = child
        parts[part] += weight.numel()
    return dict(parts)


def _part(parent: nn.Module, name: str, child: nn.Module, part: str) -> str:
    if isinstance(parent, Attention) and name in OF_ATTENTION:
        return f"{part}: {OF_ATTENTION[name]}"
    if isinstance(child, Attention):
        return "attention to the source" if child.is_cross_attention else "attention"
    if name == "head":
        return "head"
    return PARTS.get(type(child), part)


def tied(model: nn.Module) -> bool:
    """Whether the head has no weights of its own."""
    head = getattr(model, "head", None)
    others = {
        id(weight) for name, weight in model.named_parameters(remove_duplicate=False) if not name.startswith("head")
    }
    return isinstance(head, nn.Linear) and id(head.weight) in others
