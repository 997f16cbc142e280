"""A real language model as a run: SmolLM2, from its quantised GGUF file."""

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

import glassformer as gf
from glassformer.families.language import LoadedLanguageModel

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def smollm(smollm_file: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedLanguageModel:
    loaded = gf.load(gf.import_model(smollm_file, tmp_path_factory.mktemp("runs") / "smollm"), "cpu")
    assert isinstance(loaded, LoadedLanguageModel)
    return loaded


def test_it_goes_on_as_in_transformers(smollm: LoadedLanguageModel, smollm_file: Path) -> None:
    """What transformers reads of the file, in its own model: loading it in one call would need one more package."""
    theirs = LlamaForCausalLM(AutoConfig.from_pretrained(smollm_file.parent, gguf_file=smollm_file.name)).eval()
    tensors = load_gguf_checkpoint(smollm_file, return_tensors=True, model_to_load=theirs)["tensors"]
    assert theirs.load_state_dict(tensors, strict=False).missing_keys == ["lm_head.weight"]
    theirs.tie_weights()
    writing = smollm.stream("Once upon a time, in a small village by the sea,", tokens=40, greedy=True)
    prompt = len(writing.ids)
    assert "".join(writing)
    ids = torch.tensor([writing.ids[:prompt]])
    wanted = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False)
    assert writing.ids == wanted[0].tolist()


def test_it_answers_a_question(smollm: LoadedLanguageModel) -> None:
    assert "Paris" in smollm.chat("What is the capital of France?", greedy=True, tokens=40)
    told = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "What is 1 + 1?"}]
    assert smollm.chat(told, greedy=True, tokens=40)
