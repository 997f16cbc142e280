"""Tiny random BERTs made by transformers, with word pieces, in folders as it saves them."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from transformers import BertConfig

VOCAB = 103
"""Rows of the word vectors: prime, and more than there are tokens."""
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = (*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "bank", "river", "##ing", "money", ".")
TEXTS = ["the river bank", "money in the bank.", "", "x", "the banking of rivers and of money"]
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 33,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 47,
    "max_position_embeddings": 37,
    "pad_token_id": 0,
}


def save_pieces(folder: Path) -> None:
    rust = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: id for id, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    rust.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    rust.decoder = tokenizers.decoders.WordPiece()
    around = [(name, PIECES.index(name)) for name in ("[CLS]", "[SEP]")]
    rust.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=around)
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIALS, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust, **{f"{part}_token": name for part, name in names.items()}
    ).save_pretrained(folder)


def save_bert(folder: Path, kind: type[Any], **settings: Any) -> Any:
    """With weights so large that everything matters."""
    torch.manual_seed(0)
    model = kind(BertConfig(**SIZES, **settings)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight) * 0.2
            weight.copy_(1 + noise if "Norm.weight" in name else noise)
    model.save_pretrained(folder)
    save_pieces(folder)
    return model


def sentence_folder(folder: Path, *, unit: bool = True, **modes: bool) -> None:
    kinds = ["Transformer", "Pooling", *["Normalize"] * unit]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=False))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    said = {f"pooling_mode_{mode}": value for mode, value in modes.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 33, **said}))
