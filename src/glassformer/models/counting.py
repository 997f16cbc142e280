"""What a language model costs, counted from its formulas: products of numbers, steps that wait for one another, paths.

Of T tokens: T the length, d the width, i the width inside, V the vocabulary. Additions, norms and non-linearities are
left out: they grow as T does, and are few.
"""

from collections.abc import Iterator
from itertools import accumulate, count, islice

from glassformer.config.encoders import RECURRENT
from glassformer.config.sections import ModelSettings

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Maps of the input, and as many of the state, in one recurrent step."""


def multiplications(settings: ModelSettings, *, vocab: int, tokens: int) -> int:
    """Products of two numbers in one forward pass over so many tokens, the scores of the vocabulary included.

    Attention is counted as the formula has it, all T×T pairs: a kernel that skips the hidden ones makes half of these.
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
    """Layers and steps that wait for one another, however many processors there are.

    A recurrent layer waits for its own last step; the layer above it can follow one step behind.
    """
    return settings.layers + (tokens - 1 if settings.encoder in RECURRENT else 0)


def serial_additions(settings: ModelSettings, tokens: int) -> int:
    """Return the number of serial vector additions if every sum over tokens is a tree: ⌈log₂ n⌉ for n inputs.

    Attention sums T values in each layer, a convolution k inputs, a window w. Each recurrent step sums two vectors, of
    the input and of the state, and must wait for the step before it.
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
    """The fewest steps from the first token to the last output, in time or up a layer: what a gradient has to survive.

    Of convolutions, as many layers as it takes, whether the stack has them or not; None: no number of them is enough.
    """
    apart = tokens - 1
    if settings.encoder in RECURRENT:
        return tokens
    if settings.encoder == "transformer":
        return 1
    if settings.encoder == "window":
        return 1 if apart < settings.window else None
    if apart == 0:
        return 1
    if settings.kernel == 1:
        return None
    return next(layers for layers, far in enumerate(accumulate(_reaches(settings)), 1) if far >= apart)


def reach(settings: ModelSettings) -> int | None:
    """How many tokens before its own an output can depend on; None: all of them."""
    if settings.encoder == "window":
        return settings.window - 1
    if settings.encoder == "cnn":
        return sum(islice(_reaches(settings), settings.layers))
    return None


def state_numbers(settings: ModelSettings, tokens: int) -> int:
    """Numbers that writing the next token needs of so many before it."""
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
    """How far back each convolution of an endless stack reads."""
    return ((settings.kernel - 1) * settings.dilation**layer for layer in count())
