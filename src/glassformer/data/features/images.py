"""Images as a model reads them: of one size, with standardised channels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import RunError, SettingError
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Answers, Features, Inputs, Tensors
from glassformer.data.io.pictures import fit_picture
from glassformer.data.split.labelled import Labelled
from glassformer.models.inputs import Shape


@dataclass(frozen=True)
class ImageFeatures(Features):
    size: tuple[int, int]
    """Height and width."""
    mean: tuple[float, ...]
    """Mean of each channel in the training part; white is 1."""
    spread: tuple[float, ...]
    """Standard deviation of each channel."""
    shift: int = 0
    """Maximum number of pixels by which images are shifted in training."""
    flip: bool = False
    """Whether half of the images are mirrored in training."""
    seed: int = 0
    top: int | None = None
    """The value of white in the training arrays; None for image files."""

    @staticmethod
    def learn(part: Labelled, config: Config) -> "ImageFeatures":
        """Learn the size, means and standard deviations from the training part."""
        assert part.pixels is not None
        channels = [part.pixels[..., channel] / np.float32(255) for channel in range(part.pixels.shape[3])]
        return ImageFeatures(
            size=(part.pixels.shape[1], part.pixels.shape[2]),
            mean=tuple(float(channel.mean(dtype=np.float64)) for channel in channels),
            spread=tuple(float(channel.std(dtype=np.float64)) or 1.0 for channel in channels),
            shift=config.data.shift,
            flip=config.data.flip,
            seed=config.training.seed,
            top=part.top,
        )

    @property
    def shape(self) -> Shape:
        return Shape(image=(len(self.mean), *self.size))

    @property
    def words(self) -> str:
        colours = "grey" if len(self.mean) == 1 else "colours"
        return f"images of {self.size[0]}×{self.size[1]} pixels (height × width), {colours}"

    def inputs(self, part: Labelled, answers: Answers) -> "ImageInputs":
        assert part.pixels is not None
        pixels, remarks = part.pixels, tuple[str, ...]()
        if pixels.shape[1:] != (*self.size, len(self.mean)):
            fitted = [fit_picture(picture, self.size, len(self.mean)) for picture in pixels]
            pixels = np.array(fitted, np.uint8).reshape(len(part), *self.size, len(self.mean))
            if len(part) and part.pixels.shape[1:3] != self.size:
                was, is_now = ("×".join(map(str, size)) for size in (part.pixels.shape[1:3], self.size))
                remarks = (f"images of {was} pixels are brought to the {is_now} that this model reads",)
        return ImageInputs(pixels, answers, part.texts, self, remarks)

    def to_json(self) -> dict[str, object]:
        return {"size": list(self.size), "mean": list(self.mean), "spread": list(self.spread), "top": self.top}

    @staticmethod
    def from_json(value: dict[str, Any], config: Config) -> "ImageFeatures":
        height, width = map(int, value["size"])
        mean, spread = (tuple(map(float, value[key])) for key in ("mean", "spread"))
        if len(mean) != len(spread):
            raise RunError("as many means as spreads are wanted")
        data = config.data
        if data.shift >= min(height, width):
            raise SettingError(f"data.shift {data.shift} would move images of {height}×{width} pixels out of sight")
        top = None if value["top"] is None else int(value["top"])
        return ImageFeatures((height, width), mean, spread, data.shift, data.flip, config.training.seed, top)


@dataclass(frozen=True, eq=False)
class ImageInputs(Inputs):
    """Pixels as they were read; each batch is standardised when it is taken."""

    pixels: NDArray[np.uint8]
    """N×H×W×C."""
    answers: Answers
    texts: Sequence[str]
    features: ImageFeatures
    remarks: tuple[str, ...] = ()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of pixels of each image, since a pixel counts as a token."""
        return np.full(len(self), self.pixels.shape[1] * self.pixels.shape[2], np.int64)

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        x = torch.from_numpy(self.pixels[rows]).permute(0, 3, 1, 2).float() / 255
        mean, spread = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.features.mean, self.features.spread))
        return ((x - mean) / spread,)

    def select(self, rows: NDArray[np.int64]) -> "ImageInputs":
        texts = [self.texts[row] for row in rows.tolist()]
        return ImageInputs(self.pixels[rows], self.answers[rows], texts, self.features, self.remarks)

    def augment(self, tensors: Tensors, step: int) -> Tensors:
        (pixels,) = tensors
        how = self.features
        if not how.shift and not how.flip:
            return tensors
        offsets, mirrored = draw_shifts(how.seed, step, len(pixels), shift=how.shift, flip=how.flip)
        return (flip_pixels(shift_pixels(pixels, offsets), mirrored),)


# --- augmentation in training ---

PixelTensor = Shaped[Tensor, "B C H W"]


def draw_shifts(
    seed: int, step: int, batch: int, *, shift: int, flip: bool
) -> tuple[Int[Tensor, "B 2"], Bool[Tensor, "B"]]:  # fmt: skip
    """Draw the shift of each picture of a batch (−shift … shift, down and right), and whether it is mirrored.

    With `flip`, half of the pictures are mirrored, chosen at random.
    """
    chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step,)))
    offsets = chance.integers(-shift, shift, size=(batch, 2), endpoint=True)
    which = chance.random(batch) < 0.5
    return torch.from_numpy(offsets), torch.from_numpy(which & flip)


def shift_pixels(pixels: PixelTensor, offsets: Int[Tensor, "B 2"]) -> PixelTensor:
    """Shift each picture down and right by its offsets; pixels of the edge fill the gap."""
    batch, channels, height, width = pixels.shape
    down, right = offsets.to(pixels.device).unsqueeze(-1).unbind(1)
    rows = (torch.arange(height, device=pixels.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=pixels.device) - right).clamp(0, width - 1)
    picture = torch.arange(batch, device=pixels.device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=pixels.device).view(1, -1, 1, 1)
    return pixels[picture, channel, rows.view(batch, 1, -1, 1), columns.view(batch, 1, 1, -1)]


def flip_pixels(pixels: PixelTensor, which: Bool[Tensor, "B"]) -> PixelTensor:
    """Mirror the selected pictures horizontally."""
    return torch.where(which.to(pixels.device).view(-1, 1, 1, 1), pixels.flip(-1), pixels)
