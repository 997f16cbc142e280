"""The cost of a language model, counted from its formulas: multiplications, serial steps and path lengths.

T is the number of tokens, d the width, i the inner width, V the vocabulary size. Additions, norms and non-linearities
are ignored: they grow linearly with T, and there are few of them.
"""

from collections.abc import Iterator
from itertools import accumulate, count, islice

from glassformer.config.model_section import CNN, LSTM, ModelSettings, RecurrentSettings, Transformer, Window

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Number of input maps, and of state maps, per recurrent step."""


def multiplications(settings: ModelSettings, *, vocab: int, tokens: int) -> int:
    """Return the number of multiplications of one forward pass, including the vocabulary scores.

    Attention counts all T×T pairs, as in the formula; a kernel that skips hidden pairs needs half of them.
    """
    d, layers = settings.width, settings.layers
    head = d * vocab
    if isinstance(settings, RecurrentSettings):
        return tokens * (layers * GATES[settings.encoder] * 2 * d * d + head)
    if isinstance(settings, CNN):
        return tokens * (layers * settings.kernel * d * d + head)
    if isinstance(settings, Window):
        inner = settings.hidden
        return tokens * (settings.window * d * inner + (layers - 1) * inner * inner + inner * d + head)
    assert isinstance(settings, Transformer), settings.encoder
    e, inner = settings.head_width, settings.hidden
    maps = d * e * (2 * settings.heads + 2 * settings.kv_heads)  # W^Q and W^O, W^K and W^V
    feed = d * inner * (3 if settings.activation == "swiglu" else 2)
    pairs = 2 * settings.heads * e * tokens  # for each query: its scores, and the mean of the values
    return tokens * (layers * (maps + feed + pairs) + head)


def serial_steps(settings: ModelSettings, tokens: int) -> int:
    """Return the number of steps that must run one after another on any number of processors.

    A recurrent layer waits for its own previous step; the layer above can follow one step behind.
    """
    return settings.layers + (tokens - 1 if isinstance(settings, RecurrentSettings) else 0)


def serial_additions(settings: ModelSettings, tokens: int) -> int:
    """Return the number of serial vector additions if every sum over tokens is a tree: ⌈log₂ n⌉ for n inputs.

    Per layer, attention sums T values, a convolution k inputs, a window w. A recurrent step sums the vectors of the
    input and of the state, and waits for the previous step.
    """
    if isinstance(settings, RecurrentSettings):
        return serial_steps(settings, tokens)
    if isinstance(settings, Window):
        return tree_depth(min(settings.window, tokens))
    return settings.layers * tree_depth(min(settings.kernel, tokens) if isinstance(settings, CNN) else tokens)


def tree_depth(inputs: int) -> int:
    """Return the depth of a tree that sums n inputs in pairs, ⌈log₂ n⌉."""
    return (inputs - 1).bit_length()


def serial_order(settings: ModelSettings) -> str:
    """Return the growth of the serial steps with the length of the text, not counting the steps of a sum."""
    if isinstance(settings, RecurrentSettings):
        return "O(T)"
    return "O(1) + O(log T) to sum" if isinstance(settings, Transformer) else "O(1)"


def path_length(settings: ModelSettings, tokens: int) -> int | None:
    """Return the length of the shortest path from the first token to the last output, in steps or layers.

    A gradient takes the same path. For convolutions it is the number of layers required, which may exceed the model's;
    None if no number of layers suffices.
    """
    distance = tokens - 1
    if isinstance(settings, RecurrentSettings):
        return tokens
    if isinstance(settings, Transformer):
        return 1
    if isinstance(settings, Window):
        return 1 if distance < settings.window else None
    assert isinstance(settings, CNN), settings.encoder
    if distance == 0:
        return 1
    if settings.kernel == 1:
        return None
    return next(layers for layers, reached in enumerate(accumulate(_reaches(settings)), 1) if reached >= distance)


def reach(settings: ModelSettings) -> int | None:
    """Return the number of earlier tokens that an output can depend on; None: all of them."""
    if isinstance(settings, Window):
        return settings.window - 1
    if isinstance(settings, CNN):
        return sum(islice(_reaches(settings), settings.layers))
    return None


def state_numbers(settings: ModelSettings, tokens: int) -> int:
    """Return the size of the state for generating the next token after `tokens` tokens."""
    d, layers = settings.width, settings.layers
    if isinstance(settings, RecurrentSettings):
        cells = (settings.cells or d) if isinstance(settings, LSTM) else 0
        return layers * (d + cells)
    if isinstance(settings, Window):
        return (settings.window - 1) * d
    if isinstance(settings, CNN):
        return sum(islice(_reaches(settings), settings.layers)) * d
    assert isinstance(settings, Transformer), settings.encoder
    return 2 * layers * tokens * settings.kv_heads * settings.head_width


def _reaches(settings: CNN) -> Iterator[int]:
    """Yield the number of earlier tokens that each convolution of an infinite stack reads."""
    return ((settings.kernel - 1) * settings.dilation**layer for layer in count())
