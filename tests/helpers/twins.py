"""Tiny random models made by transformers, in folders as it saves them: prime vocabularies, odd numbers of heads."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from torch import Tensor, nn

VOCAB = 307
"""Rows of the word vectors: prime, and more than there are tokens."""
START, END, PAD = "<s>", "</s>", "<pad>"
TEXT = "the cat sat on the mat and the dog sat on the log; naïve übung, 12 34 …\n" * 7
PROMPTS = ["the cat", "and the dog sat on the", "x"]


def save_tokens(folder: Path, *, opening: bool = True, closing: bool = False) -> None:
    """Byte pairs, with START before each text and END after it where they are asked for."""
    rust = tokenizers.Tokenizer(tokenizers.models.BPE())
    rust.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=293,
        special_tokens=[PAD, START, END],
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    rust.train_from_iterator([TEXT], trainer)
    if opening or closing:
        single = " ".join([START] * opening + ["$A"] + [END] * closing)
        specials = [(name, rust.token_to_id(name)) for name in (START, END)]
        rust.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=specials)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust, bos_token=START, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.model_input_names = ["input_ids", "attention_mask"]
    fast.save_pretrained(folder)


def save_twin(folder: Path, kind: type[Any], config: Any, *, seed: int = 0, **saving: Any) -> Any:
    """A model with weights large enough that everything matters."""
    torch.manual_seed(seed)
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight) * 0.2
            weight.copy_(1 + noise if "norm" in name or (".ln_" in name and name.endswith("weight")) else noise)
    model.save_pretrained(folder, **saving)
    return model


def blocks_of(model: nn.Module, *inputs: Tensor) -> list[Tensor]:
    """What each block of ours gives."""
    found: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda _, __, out: found.append(out)) for block in model.encoder.blocks]  # type: ignore[union-attr]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return found


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    scale = float(theirs.abs().max())
    difference = float((ours - theirs).abs().max())
    assert difference <= 1e-5 * max(1.0, scale)
