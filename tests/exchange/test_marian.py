"""The translator of 2017: ours goes out as Marian's, and Marian's own files come in."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer

import glassformer as gf
from glassformer.config.resolve import Config, resolve
from glassformer.config.sections import TokenizerSettings
from glassformer.decoding.translate import GREEDY
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.export import export_huggingface, their_config
from glassformer.families.translation import LoadedTranslator, translate_texts
from glassformer.models.build import build_seq2seq
from glassformer.text.tokenizer import Tokenizer
from helpers.translator_twins import SIZES, loud
from helpers.twins import close

ENGLISH = [f"the {a} {b} the {c}" for a in ("cat", "dog", "bird") for b in ("sees", "hears") for c in ("house", "tree")]
GERMAN = [
    f"ein {a} {b} ein {c}" for a in ("Kater", "Hund", "Spatz") for b in ("sieht", "hört") for c in ("Haus", "Ast")
]
CLASSIC = {"task": "translation", "style": "classic", "model.width": 30, "model.heads": 3, "model.context": 31}


def ours(**settings: Any) -> tuple[Config, Tokenizer, Any]:
    config = resolve({}, {**CLASSIC, "model.decoder_layers": 3, **settings})
    tokenizer = Tokenizer.train([*ENGLISH, *GERMAN], TokenizerSettings(kind="bpe", vocab_size=311))
    size = tokenizer.vocab_size
    model = build_seq2seq(config.model, source_vocab=size, target_vocab=size).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 1.0 if ("norm" in name and name.endswith("weight")) or "table" in name else 0.2
            weight.copy_(torch.randn_like(weight) * scale)
    return config, tokenizer, model


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model.positions": "sine-halves", "model.head_bias": True, "model.activation": "silu"},
        {"model.positions": "learned", "model.embed_norm": True, "model.embed_scale": False},
    ],
    ids=["classic", "marian", "bart"],
)
def test_our_translator_goes_out(settings: dict[str, Any], tmp_path: Path) -> None:
    config, tokenizer, model = ours(**settings)
    export_huggingface(ExportedRun(model=model, config=config, tokenizer=tokenizer), tmp_path / "out")
    back = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    cut = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(back).__name__ == (
        "MarianMTModel" if "sine" in config.model.positions else "BartForConditionalGeneration"
    )
    batch = cut([*ENGLISH[:3], "cat"], return_tensors="pt", padding=True)
    assert batch["input_ids"][0].tolist()[-1] == tokenizer.end
    target = torch.randint(311, (4, 7))
    with torch.no_grad():
        wanted = model(batch["input_ids"], batch["attention_mask"].bool(), target)
        close(back(**batch, decoder_input_ids=target).logits, wanted)
    for text in ENGLISH[:2]:
        sides, context = (tokenizer, tokenizer), config.model.context
        found = translate_texts(model, sides, [text], GREEDY, context=context)[0]
        source = cut(text, return_tensors="pt")
        most = min(31, 3 * source["input_ids"].shape[1] + 20)
        generated = back.generate(**source, do_sample=False, max_new_tokens=most, max_length=None)
        assert cut.decode(generated[0], skip_special_tokens=True) == found.text != ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model.norm_order": "pre"}, "model.norm_order pre: only post"),
        ({"model.tied": False}, "model.tied false: only true"),
        ({"model.norm_eps": 1e-3}, "model.norm_eps 0.001: only unset"),
        ({"tokenizer.shared": False, "model.shared": False}, "model.shared false: only true"),
        ({"model.decoder": "lstm"}, "model.decoder lstm: only transformer"),
    ],
)
def test_what_marian_is_not_is_named(settings: dict[str, Any], says: str) -> None:
    config = resolve({}, {**CLASSIC, **settings}, strict=False)
    with pytest.raises(Unsupported, match=f"Marian has no .*{says}.*--to onnx"):
        their_config(config, 311)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Marian's are: two files of pieces, with the ids of one vocabulary."""
    folder = tmp_path_factory.mktemp("marian")
    vocabulary = {"</s>": 0, "<unk>": 1}
    for side, texts in (("source", ENGLISH), ("target", GERMAN)):
        text = folder / f"{side}.txt"
        text.write_text("\n".join(texts))
        how = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, "bos_id": -1, "eos_id": 0, "unk_id": 1}
        sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(folder / side), **how)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        held = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        for id in range(held.get_piece_size()):
            vocabulary.setdefault(held.id_to_piece(id), len(vocabulary))
    vocabulary["<pad>"] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


@pytest.mark.slow
def test_marians_own_files_come_in_and_go_out(pieces: Path, tmp_path: Path) -> None:
    size = len(json.loads((pieces / "vocab.json").read_text()))
    marks = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "bos_token_id": None}
    theirs = loud(MarianMTModel(MarianConfig(**{**SIZES, "vocab_size": size, **marks}, activation_function="relu")))
    theirs.generation_config.suppress_tokens = [1, size - 1]
    theirs.save_pretrained(tmp_path / "in")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package
        cut = MarianTokenizer(str(pieces / "source.spm"), str(pieces / "target.spm"), str(pieces / "vocab.json"))
    cut.save_pretrained(tmp_path / "in")
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    loaded = gf.load(run, "cpu")
    assert isinstance(loaded, LoadedTranslator)
    assert loaded.tokenizer.hash != loaded.target_tokenizer.hash
    texts = [*ENGLISH[:2], "the the the"]
    assert written_by(theirs, cut, texts) == [one.text for one in loaded.translate(texts, beam=1)]
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert (tmp_path / "out" / "source.spm").read_bytes() == (pieces / "source.spm").read_bytes()
    assert written_by(back, cut, texts) == written_by(theirs, cut, texts)


def written_by(model: Any, tokenizer: Any, texts: list[str]) -> list[str]:
    out = []
    for text in texts:
        source = tokenizer(text, return_tensors="pt")
        most = min(41, 3 * source["input_ids"].shape[1] + 20)
        ids = model.generate(**source, do_sample=False, num_beams=1, max_new_tokens=most, max_length=None)
        out.append(tokenizer.decode(ids[0], skip_special_tokens=True))
    return out
