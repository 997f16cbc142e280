"""Texts, columns and images of one example together: learned, saved, taken, trimmed and changed together."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from glassformer.config.errors import RunError
from glassformer.config.sections import TokenizerSettings
from glassformer.data.features.build import MixedFeatures, MixedInputs, TextFeatures, learn_features, read_features
from glassformer.data.features.texts import Examples
from glassformer.data.split.labelled import Labelled
from glassformer.models.inputs import Shape
from glassformer.text.tokenizer import Tokenizer
from helpers.kinds import config_of, pictures_part

CONFIG = config_of("mixed", "transformer", data__shift=1, model__context=9)
TEXTS = ["a b c", "a", "b b b b b", "", "c a b a c a b a c a b", "c"]
TOKENIZER = Tokenizer.train(TEXTS, TokenizerSettings(kind="word"))
ALL = np.arange(6)


def part() -> Labelled:
    images = pictures_part(6)
    columns = {"n": ["1", "2", "", "4", "5", "6"], "city": ["x", "y", "x", "y", "x", "y"]}
    return dataclasses.replace(images, texts=TEXTS, columns=columns)


def mixed(given: Labelled | None = None) -> tuple[MixedFeatures, MixedInputs]:
    given = given or part()
    features = learn_features(CONFIG, given, TOKENIZER)
    assert isinstance(features, MixedFeatures)
    return features, features.inputs(given, ALL)


def test_all_kinds_are_taken_one_after_the_other() -> None:
    features, inputs = mixed()
    assert features.shape == Shape(TOKENIZER.vocab_size, 2, (3,), (1, 11, 7))
    ids, mask, numbers, categories, pixels = inputs.take(np.array([4, 1]))
    assert inputs.text is not None
    assert inputs.table is not None
    assert inputs.image is not None
    for found, expected in zip(
        (ids, mask, numbers, categories, pixels),
        (
            *inputs.text.take(np.array([4, 1])),
            *inputs.table.take(np.array([4, 1])),
            *inputs.image.take(np.array([4, 1])),
        ),
        strict=True,
    ):
        assert torch.equal(found, expected)
    assert mask.sum(1).tolist() == [9, 3]
    assert inputs.lengths.tolist() == (inputs.text.lengths + 3 + 77).tolist()
    assert inputs.text.cut == 1
    assert len(inputs) == 6


def test_only_the_text_is_trimmed() -> None:
    _, inputs = mixed()
    taken = inputs.take(ALL)
    few = inputs.trim(tuple(tensor[1:2] for tensor in taken))
    assert [tensor.shape for tensor in few] == [(1, 3), (1, 3), (1, 2), (1, 1), (1, 1, 11, 7)]
    assert torch.equal(few[0], taken[0][1:2, :3])


def test_only_the_image_is_changed() -> None:
    _, inputs = mixed()
    taken = inputs.take(ALL)
    changed = inputs.augment(taken, 5)
    assert all(one is other for one, other in zip(taken[:-1], changed[:-1], strict=True))
    assert not torch.equal(taken[-1], changed[-1])
    assert torch.equal(changed[-1], inputs.augment(taken, 5)[-1])


def test_saved_and_read_again() -> None:
    features, inputs = mixed()
    again = read_features(json.loads(json.dumps(features.to_json())), TOKENIZER, CONFIG, "a card")
    assert isinstance(again, MixedFeatures)
    for one, other in zip(inputs.take(ALL), again.inputs(part(), ALL).take(ALL), strict=True):
        assert torch.equal(one, other)
    assert again.words == features.words
    with pytest.raises(RunError, match="a card is damaged"):
        read_features(None, TOKENIZER, CONFIG, "a card")


def test_remarks_of_all_kinds_are_joined() -> None:
    features, _ = mixed()
    assert [remark.split(" is ")[0] for remark in features.remarks] == ["column 'n'"]
    other = dataclasses.replace(part(), columns={"n": ["1"] * 6, "city": ["z"] * 6})
    assert "6 values not in training" in features.inputs(other, ALL).remarks[0]


def test_what_is_not_there_is_not_read() -> None:
    bare = dataclasses.replace(part(), columns={}, pixels=None)
    features, inputs = mixed(bare)
    assert (features.table, features.image) == (None, None)
    taken = inputs.take(ALL)
    assert len(taken) == 2
    assert inputs.augment(taken, 3) is taken
    wordless = learn_features(CONFIG, part(), None)
    assert isinstance(wordless, MixedFeatures)
    assert wordless.shape.vocab == 0
    assert len(wordless.inputs(part(), ALL).take(ALL)) == 3


def test_texts() -> None:
    config = config_of("text", "lstm", model__context=9)
    features = learn_features(config, part(), TOKENIZER)
    assert features == read_features(None, TOKENIZER, config, "a card") == TextFeatures(TOKENIZER, 9, framed=True)
    assert features.to_json() == {}
    inputs = features.inputs(part(), ALL)
    assert isinstance(inputs, Examples)
    assert inputs.noun == "text"
    assert features.shape == Shape(vocab=TOKENIZER.vocab_size)
