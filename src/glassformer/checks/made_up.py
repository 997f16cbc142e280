"""Examples that nobody wrote, for a run whose data is gone: numbers of the right kind and shape."""

import torch
from torch import Tensor

from glassformer.families.base import Loaded
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.translation import LoadedTranslator


def made_up(loaded: Loaded, count: int, most: int, device: torch.device) -> list[tuple[Tensor | None, ...]]:
    """What a model is called with, as so many batches of one; of up to so many tokens."""
    random = torch.Generator().manual_seed(0)
    longest = min(most, loaded.config.model.context)

    def tokens(vocab: int) -> Tensor:
        length = int(torch.randint(1 + longest // 2, longest + 1, (), generator=random))
        return torch.randint(vocab, (1, length), generator=random)

    def example() -> tuple[Tensor | None, ...]:
        tokenizer = loaded.tokenizer
        if isinstance(loaded, LoadedTranslator):
            assert tokenizer is not None
            return tokens(tokenizer.vocab_size), None, tokens(loaded.target_tokenizer.vocab_size), None
        if not isinstance(loaded, LoadedPredictor | LoadedEmbedder):
            assert tokenizer is not None
            return tokens(tokenizer.vocab_size), None
        shape, made = loaded.features.shape, list[Tensor]()
        if shape.vocab:
            ids = tokens(shape.vocab)
            made += [ids, torch.ones_like(ids, dtype=torch.bool)]
        if shape.columns:
            made.append(torch.randn(1, shape.numbers, generator=random))
            of = [torch.randint(values, (1, 1), generator=random) for values in shape.categories]
            made.append(torch.cat([torch.empty(1, 0, dtype=torch.long), *of], 1))
        if shape.image is not None:
            made.append(torch.randn(1, *shape.image, generator=random))
        return tuple(made)

    return [tuple(None if one is None else one.to(device) for one in example()) for _ in range(count)]
