"""The cost of a language model, counted from its formulas: multiplications, serial steps and path lengths.

T is the number of tokens, d the width, i the inner width, V the vocabulary size. Additions, norms and non-linearities
are ignored: they grow linearly with T, and there are few of them.
"""

from collections.abc import Iterator
from itertools import accumulate, count, islice

from glassformer.config.encoders import RECURRENT
from glassformer.config.sections import ModelSettings

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Number of input maps, and of state maps, per recurrent step."""


def multiplications(settings: ModelSettings, *, vocab: int, tokens: int) -> int:
    """Return the number of multiplications of one forward pass, including the vocabulary scores.

    Attention counts all T×T pairs, as in the formula; a kernel that skips hidden pairs needs half of them.
    """
    d, layers = settings.width, settings.layers
    head = d * vocab
    if settings.encoder in RECURRENT:
        return tokens * (layers * GATES[settings.encoder] * 2 * d * d + head)
    if settings.encoder == "cnn":
        return tokens * (layers * settings.kernel * d * d + head)
    inner = settings.hidden
    if settings.encoder == "window":
        return tokens * (settings.window * d * inner + (layers - 1) * inner * inner + inner * d + head)
    assert settings.encoder == "transformer", settings.encoder
    e = settings.head_width
    maps = d * e * (2 * settings.heads + 2 * settings.kv_heads)  # W^Q and W^O, W^K and W^V
    feed = d * inner * (3 if settings.activation == "swiglu" else 2)
    pairs = 2 * settings.heads * e * tokens  # for each query: its scores, and the mean of the values
    return tokens * (layers * (maps + feed + pairs) + head)


def serial_steps(settings: ModelSettings, tokens: int) -> int:
    """Return the number of steps that must run one after another on any number of processors.

    A recurrent layer waits for its own previous step; the layer above can follow one step behind.
    """
    return settings.layers + (tokens - 1 if settings.encoder in RECURRENT else 0)


def serial_additions(settings: ModelSettings, tokens: int) -> int:
    """Return the number of serial vector additions if every sum over tokens is a tree: ⌈log₂ n⌉ for n inputs.

    Per layer, attention sums T values, a convolution k inputs, a window w. A recurrent step sums the vectors of the
    input and of the state, and waits for the previous step.
    """
    if settings.encoder in RECURRENT:
        return serial_steps(settings, tokens)
    if settings.encoder == "window":
        return tree_depth(min(settings.window, tokens))
    return settings.layers * tree_depth(min(settings.kernel, tokens) if settings.encoder == "cnn" else tokens)


def tree_depth(inputs: int) -> int:
    """Return the depth of a tree that sums n inputs in pairs, ⌈log₂ n⌉."""
    return (inputs - 1).bit_length()


def serial_order(settings: ModelSettings) -> str:
    """Return the growth of the serial steps with the length of the text, not counting the steps of a sum."""
    if settings.encoder in RECURRENT:
        return "O(T)"
    return "O(1) + O(log T) to sum" if settings.encoder == "transformer" else "O(1)"


def path_length(settings: ModelSettings, tokens: int) -> int | None:
    """Return the length of the shortest path from the first token to the last output, in steps or layers.

    A gradient takes the same path. For convolutions it is the number of layers required, which may exceed the model's;
    None if no number of layers suffices.
    """
    distance = tokens - 1
    if settings.encoder in RECURRENT:
        return tokens
    if settings.encoder == "transformer":
        return 1
    if settings.encoder == "window":
        return 1 if distance < settings.window else None
    if distance == 0:
        return 1
    if settings.kernel == 1:
        return None
    return next(layers for layers, reached in enumerate(accumulate(_reaches(settings)), 1) if reached >= distance)


def reach(settings: ModelSettings) -> int | None:
    """Return the number of earlier tokens that an output can depend on; None: all of them."""
    if settings.encoder == "window":
        return settings.window - 1
    if settings.encoder == "cnn":
        return sum(islice(_reaches(settings), settings.layers))
    return None


def state_numbers(settings: ModelSettings, tokens: int) -> int:
    """Return the size of the state for generating the next token after `tokens` tokens."""
    d, layers = settings.width, settings.layers
    if settings.encoder in RECURRENT:
        cells = (settings.cells or d) if settings.encoder == "lstm" else 0
        return layers * (d + cells)
    if settings.encoder == "window":
        return (settings.window - 1) * d
    if settings.encoder == "cnn":
        return sum(islice(_reaches(settings), settings.layers)) * d
    return 2 * layers * tokens * settings.kv_heads * settings.head_width


def _reaches(settings: ModelSettings) -> Iterator[int]:
    """Yield the number of earlier tokens that each convolution of an infinite stack reads."""
    return ((settings.kernel - 1) * settings.dilation**layer for layer in count())
