"""Tiny random DistilBERT, RoBERTa and XLM-RoBERTa models made by transformers, with tokenizers like their own."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors
from transformers import DistilBertConfig, RobertaConfig, XLMRobertaConfig

from helpers.bert_twins import save_pieces

VOCAB = 307
"""Rows of the word vectors: prime, and more than there are tokens."""
CONTEXT = 31
MARKS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
TEXT = "the cat sat on the mat and the dog sat on the log; naïve übung, 12 34 …\n" * 7
NAMES = dict(zip(("bos", "pad", "eos", "unk", "mask"), MARKS, strict=True)) | {"cls": "<s>", "sep": "</s>"}
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 33,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 47,
    "max_position_embeddings": CONTEXT + 2,
}
DISTILBERT_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "dim": 33,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 47,
    "max_position_embeddings": CONTEXT,
}
CONFIGS = {
    "distilbert": (DistilBertConfig, DISTILBERT_SIZES),
    "roberta": (RobertaConfig, SIZES),
    "xlm-roberta": (XLMRobertaConfig, SIZES),
}


def byte_pairs() -> tokenizers.Tokenizer:
    """RoBERTa's kind: byte-level BPE, framed by <s> and </s>."""
    rust = tokenizers.Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=293,
        special_tokens=list(MARKS),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    rust.train_from_iterator([TEXT], trainer)
    rust.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    rust.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return rust


def unigram_pieces() -> tokenizers.Tokenizer:
    """XLM-RoBERTa's kind: SentencePiece's Unigram."""
    words = ["▁the", "▁cat", "▁sat", "▁on", "▁", "s", *"abcdefghijklmnopqrtuvwxyz."]
    pieces = [(mark, 0.0) for mark in MARKS[:4]] + [(word, -2.0 - len(words[:n]) / 9) for n, word in enumerate(words)]
    rust = tokenizers.Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=3))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    rust.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    rust.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return rust


def save_relative(folder: Path, model_type: str, class_end: str, **settings: Any) -> Any:
    """Save and return a model whose weights are large enough for every one to matter."""
    config_class, sizes = CONFIGS[model_type]
    prefix = config_class.__name__.removesuffix("Config")
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}{class_end}")(config_class(**{**sizes, **settings})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight) * 0.2
            weight.copy_(1 + noise if "norm.weight" in name.lower() else noise)
    model.save_pretrained(folder)
    if model_type == "distilbert":
        save_pieces(folder)
    else:
        rust = byte_pairs() if model_type == "roberta" else unigram_pieces()
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=rust, **{f"{part}_token": name for part, name in NAMES.items()}
        )
        fast.model_input_names = ["input_ids", "attention_mask"]
        fast.save_pretrained(folder)
    return model
