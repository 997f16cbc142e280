"""Images as a model reads them, and a little changed in training."""

import json

import numpy as np
import pytest
import torch

from glassformer.config.errors import RunError
from glassformer.data.features.build import learn_features, read_features
from glassformer.data.features.images import ImageFeatures, ImageInputs
from glassformer.models.inputs import Shape
from helpers.kinds import config_of, pictures_part

ALL = np.arange(24)


def learned(channels: int = 1, **more: object) -> tuple[ImageFeatures, ImageInputs]:
    part = pictures_part(24, channels=channels)
    features = learn_features(config_of("image", "cnn", **more), part, None)
    assert isinstance(features, ImageFeatures)
    return features, features.inputs(part, np.arange(24))


@pytest.mark.parametrize("channels", [1, 3])
def test_each_channel_is_in_spreads_from_its_mean(channels: int) -> None:
    features, inputs = learned(channels)
    (pixels,) = inputs.take(ALL)
    assert pixels.shape == (24, channels, 11, 7)
    assert features.shape == Shape(image=(channels, 11, 7))
    for channel in range(channels):
        one = pixels[:, channel]
        assert one.mean().item() == pytest.approx(0, abs=1e-4)
        assert one.std(correction=0).item() == pytest.approx(1, abs=1e-4)
        raw = inputs.pixels[..., channel] / 255
        np.testing.assert_allclose(one, (raw - raw.mean()) / raw.std(), atol=1e-4)
    assert torch.equal(inputs.take(np.array([5, 2]))[0], pixels[[5, 2]])


def test_saved_and_read_again() -> None:
    config = config_of("image", "cnn", data__shift=2, data__flip=True, training__seed=5)
    part = pictures_part(24, channels=3)
    features = learn_features(config, part, None)
    again = read_features(json.loads(json.dumps(features.to_json())), None, config, "a card")
    assert again == features
    with pytest.raises(RunError, match="a card is damaged"):
        read_features({"size": [3], "mean": [0.0], "spread": [1.0]}, None, config, "a card")
    with pytest.raises(RunError, match="a card is damaged"):
        read_features({"size": [3, 3], "mean": [0.0], "spread": []}, None, config, "a card")


def test_images_of_another_size_are_brought_to_the_runs() -> None:
    features, _ = learned()
    other = features.inputs(pictures_part(5, size=(22, 14), channels=3), np.zeros(5))
    assert other.pixels.shape == (5, 11, 7, 1)
    assert other.remarks == ("images of 22×14 pixels are brought to the 11×7 that this model reads",)
    grey = features.inputs(pictures_part(5, channels=3), np.zeros(5))
    assert (grey.pixels.shape, grey.remarks) == ((5, 11, 7, 1), ())


def test_one_colour_everywhere() -> None:
    part = pictures_part(4)
    assert part.pixels is not None
    part.pixels[:] = 255
    features = ImageFeatures.learn(part, config_of("image", "cnn"))
    assert features.spread == (1.0,)
    assert (features.inputs(part, np.zeros(4)).take(np.arange(4))[0] == 0).all()


def test_changes_are_a_function_of_seed_and_step() -> None:
    def changed(step: int, seed: int = 0, **more: object) -> torch.Tensor:
        _, inputs = learned(training__seed=seed, **more)
        return inputs.augment(inputs.take(ALL), step)[0]

    plain = learned()[1].take(ALL)[0]
    assert torch.equal(changed(3), plain)
    how = {"data__shift": 2, "data__flip": True}
    assert torch.equal(changed(3, **how), changed(3, **how))
    assert not torch.equal(changed(3, **how), changed(4, **how))
    assert not torch.equal(changed(3, **how), changed(3, seed=1, **how))
    assert not torch.equal(changed(3, **how), plain)
    mirrored = changed(3, data__flip=True)
    which = [not torch.equal(one, other) for one, other in zip(mirrored, plain, strict=True)]
    assert 0 < sum(which) < 24
    for one, other in zip(mirrored, plain, strict=True):
        assert torch.equal(one, other) or torch.equal(one, other.flip(-1))


def test_a_pixel_counts_as_a_token() -> None:
    features, inputs = learned()
    assert inputs.lengths.tolist() == [77] * 24
    assert features.words == "images of 11×7 pixels (height × width), grey"
