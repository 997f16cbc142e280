"""A real GGUF file: SmolLM2, quantised, as it is published."""

from pathlib import Path

import pytest
import regex
import torch
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.gguf_reader import read_gguf
from helpers.nasty import NASTY

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def smollm(smollm_file: Path) -> ExternalModel:
    return read_gguf(smollm_file)


def test_its_tokens_are_those_of_transformers(smollm: ExternalModel, smollm_file: Path) -> None:
    """transformers does not read that every digit stands alone, so it is given the digits one by one."""
    reference = AutoTokenizer.from_pretrained(smollm_file.parent, gguf_file=smollm_file.name)
    for text in NASTY:
        stretches = [one for one in regex.split(r"(\p{N})", text) if one]
        ids = [
            id for one in stretches for id in reference.encode(one, add_special_tokens=False, split_special_tokens=True)
        ]
        assert smollm.tokens.tokenizer.encode(text) == ids, text
        assert smollm.tokens.tokenizer.decode(ids) == text
    assert smollm.tokens.tokenizer.token(smollm.tokens.tokenizer.end or 0) == "<|im_end|>"
    assert smollm.tokens.tokenizer.specials == set(range(17)) == set(reference.added_tokens_decoder)
    assert smollm.tokens.chat_template == reference.chat_template


def test_its_weights_are_those_of_transformers(smollm: ExternalModel, smollm_file: Path) -> None:
    config = AutoConfig.from_pretrained(smollm_file.parent, gguf_file=smollm_file.name)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    theirs = load_gguf_checkpoint(smollm_file, return_tensors=True, model_to_load=model)["tensors"]
    assert smollm.weights.shapes.keys() == theirs.keys()
    for name in theirs:
        assert torch.equal(smollm.weights.read(name), theirs[name]), name


def test_its_settings_are_those_of_transformers(smollm: ExternalModel, smollm_file: Path) -> None:
    theirs = AutoConfig.from_pretrained(smollm_file.parent, gguf_file=smollm_file.name).to_dict()
    apart = {"architectures", "rope_theta", "rope_scaling", "rms_norm_eps"}
    assert {key: one for key, one in smollm.config.items() if key not in apart} == {
        key: theirs[key] for key in smollm.config.keys() - apart
    }
    assert smollm.config["rms_norm_eps"] == pytest.approx(theirs["rms_norm_eps"])
    assert smollm.config["rope_theta"] == theirs["rope_parameters"]["rope_theta"]


def test_it_knows_the_capital_of_france(smollm: ExternalModel) -> None:
    model = LlamaForCausalLM(LlamaForCausalLM.config_class(**smollm.config)).eval()
    model.load_state_dict({name: smollm.weights.read(name) for name in smollm.weights.shapes}, strict=False)
    ids = torch.tensor([smollm.tokens.tokenizer.encode("The capital of France is")])
    assert smollm.tokens.tokenizer.token(int(model(ids).logits[0, -1].argmax())) == " Paris"
