"""Tiny random BART and Marian models made by transformers, in folders as it saves them."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, MarianConfig, MarianMTModel

VOCAB, CONTEXT = 103, 41
"""Rows of the word vectors: prime, and more than there are tokens."""
WORDS = ("<s>", "<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(93)))
START, PAD, END, UNKNOWN = range(4)
NEVER = [START, PAD, UNKNOWN, *range(len(WORDS), VOCAB)]
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 33,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 47,
    "decoder_ffn_dim": 47,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": START,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "forced_eos_token_id": None,
}
OWN: dict[str, dict[str, Any]] = {
    "bart": {"decoder_start_token_id": END},
    "marian": {"decoder_start_token_id": PAD, "scale_embedding": True, "activation_function": "swish"},
}
KINDS = {"bart": (BartForConditionalGeneration, BartConfig), "marian": (MarianMTModel, MarianConfig)}


def save_words(folder: Path, *, opened: bool) -> None:
    rust = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    rust.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    single = "<s> $A </s>" if opened else "$A </s>"
    specials = [("<s>", START), ("</s>", END)]
    rust.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=specials)
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=rust, **names)
    fast.model_input_names = ["input_ids", "attention_mask"]
    fast.save_pretrained(folder)


def loud(model: Any, seed: int = 0) -> Any:
    """With weights so large, and norms so far from 1, that no token is just said again, and END comes in time."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name and not weight.requires_grad:
                continue
            noise = torch.randn(weight.shape, generator=random)
            large = ("norm" in name and name.endswith("weight")) or "shared" in name or "positions" in name
            weight.copy_(noise * (1.0 if large else 0.1 if name.endswith("bias") else 0.2))
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=random))
        model.final_logits_bias[0, END] += 15
        model.final_logits_bias[0, START] = -50  # what is forced must not be suppressed too
    return model.eval()


def save_translator(folder: Path, kind: str, **settings: Any) -> Any:
    made, config = KINDS[kind]
    model = loud(made(config(**{**SIZES, **OWN[kind], **settings})))
    if kind == "bart":
        model.generation_config.forced_bos_token_id = START
    model.generation_config.suppress_tokens = NEVER[1:]
    model.save_pretrained(folder)
    save_words(folder, opened=kind == "bart")
    return model


def sources(opened: bool) -> list[list[int]]:
    """As they are read, each of its own length."""
    random = torch.Generator().manual_seed(5)
    texts = [torch.randint(4, len(WORDS), (length,), generator=random).tolist() for length in (3, 17, 1, 9, 30)]
    return [[*[START] * opened, *text, END] for text in texts]


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
    return ids, torch.arange(longest) < torch.tensor([[len(row)] for row in rows])
