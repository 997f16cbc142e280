"""How much of a gradient reaches a token far back, before anything is learned."""

from dataclasses import replace

import torch
from jaxtyping import Float

from glassformer.config.arrays import Array
from glassformer.config.sections import ModelSettings
from glassformer.models.build import build_language_model

TEXTS = 16


def gradient_by_distance(
    settings: ModelSettings, *, vocab: int, tokens: int, seed: int, device: torch.device, texts: int = TEXTS
) -> Float[Array, "T"]:
    """‖∂y_T/∂x_(T−k)‖ for k = 0 … T − 1, x the encoder's inputs and y its outputs, as a part of that for k = 0.

    Along a random direction of the last output, root mean square over random texts. Every model starts by Xavier's
    rule or torch's: blocks that start as the identity, as the Transformer's usually do, would pass on nothing at all.
    """
    model = build_language_model(replace(settings, initialisation="xavier"), vocab=vocab, seed=seed).to(device).eval()
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocab, (texts, tokens), generator=draw).to(device)
    direction = torch.randn(texts, model.encoder.width, generator=draw).to(device)
    vectors = model.embed(ids).detach().requires_grad_()
    last = model.encoder(vectors)[:, -1]
    gradient = torch.autograd.grad((last * direction).sum(), vectors)[0].cpu().double()
    sizes = gradient.square().sum(-1).mean(0).sqrt().flip(0).numpy()
    return sizes / sizes[0]
