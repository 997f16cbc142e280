from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.data.io.picture_arrays import read_arrays
from glassformer.data.io.table import Pictures

N, H, W = 4, 5, 7
LABELS = [3, 1, 3, 2]


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    pixels.flat[:2] = 0, 255
    return pixels


def write(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def read(folder: Path, images: np.ndarray) -> Pictures:
    return read_arrays(write(folder, images=images, labels=LABELS))


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_arrays(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("images", "labels"),
    [("images", "labels"), ("x", "y"), ("X", "Y"), ("data", "target"), ("x_train", "y_train"), ("train.X", "train.y")],
)
def test_arrays_by_their_names(tmp_path: Path, images: str, labels: str) -> None:
    arrays = read_arrays(write(tmp_path, **{"class_names": ["a", "b"], labels: LABELS, images: noise(N, H, W)}))
    assert np.array_equal(arrays.pixels, noise(N, H, W)[..., None])
    assert arrays.pixels.dtype == np.uint8
    assert arrays.labels == ["3", "1", "3", "2"]
    assert arrays.files == ["image 0", "image 1", "image 2", "image 3"]
    assert arrays.part is None
    assert arrays.note == ""


@pytest.mark.parametrize("names", ["x_{}", "{}_images"])
@pytest.mark.parametrize("train", ["train", ""])
@pytest.mark.parametrize("validation", ["val", "valid", "validation"])
def test_parts(tmp_path: Path, names: str, train: str, validation: str) -> None:
    parts = {"test": 1, train: 3, validation: 2}
    images = {names.format(part): noise(count, H, W, seed=count) for part, count in parts.items()}
    labels = {f"y_{part}": np.arange(count) + count * 10 for part, count in parts.items()}
    arrays = read_arrays(write(tmp_path, **images, **labels))
    assert arrays.part == ["train"] * 3 + ["validation"] * 2 + ["test"]
    assert arrays.labels == ["30", "31", "32", "20", "21", "10"]
    assert arrays.files[2:5] == ["train image 2", "validation image 0", "validation image 1"]
    expected = np.concatenate([noise(count, H, W, 1, seed=count) for count in (3, 2, 1)])
    assert np.array_equal(arrays.pixels, expected)


def test_layouts(tmp_path: Path) -> None:
    for channels in (1, 3):
        pixels = noise(N, H, W, channels)
        assert np.array_equal(read(tmp_path, pixels).pixels, pixels)
        assert np.array_equal(read(tmp_path, pixels.transpose(0, 3, 1, 2)).pixels, pixels)
    narrow = noise(N, 3, W, 3)
    assert np.array_equal(read(tmp_path, narrow).pixels, narrow)


def test_scales(tmp_path: Path) -> None:
    pixels = noise(N, H, W)[..., None]
    assert np.array_equal(read(tmp_path, pixels.astype(np.float32)).pixels, pixels)
    assert read(tmp_path, pixels.astype(np.int64)).note == ""
    for dtype in (np.float16, np.float32, np.float64):
        arrays = read(tmp_path, (pixels / 255).astype(dtype))
        assert np.array_equal(arrays.pixels, pixels)
        assert arrays.note == "pixels from 0 to 1 taken as 0–1 and scaled to 0–255"
    whole = np.arange(N * 2 * 2).reshape(N, 2, 2) + 1
    for values in (whole, whole.astype(np.uint8), whole.astype(np.float32)):
        arrays = read(tmp_path, values)
        assert np.array_equal(arrays.pixels[..., 0], np.rint(whole * 255 / 16))
        assert arrays.note == "pixels from 1 to 16 taken as 0–16 and scaled to 0–255"
    arrays = read(tmp_path, pixels.astype(np.uint16) * 257)
    assert np.array_equal(arrays.pixels, pixels)
    assert arrays.note == "pixels from 0 to 65535 taken as 0–65535 and scaled to 0–255"
    assert set(read(tmp_path, pixels > 100).pixels.flat) == {0, 255}


def test_rounding_does_not_change_the_scale(tmp_path: Path) -> None:
    arrays = read(tmp_path, np.linspace(-0.0004, 1.0004, N * 4).reshape(N, 2, 2))
    assert arrays.note.endswith("taken as 0–1 and scaled to 0–255")
    assert arrays.pixels.flat[0] == 0
    assert arrays.pixels.flat[-1] == 255
    assert (np.diff(arrays.pixels.flat[:].astype(int)) > 0).all()


def test_all_parts_have_one_scale(tmp_path: Path) -> None:
    dark = np.full((1, H, W), 0.5)
    arrays = read_arrays(write(tmp_path, x_train=np.full((2, H, W), 16.0), y_train=[0, 1], x_test=dark, y_test=[0]))
    assert [int(image[0, 0, 0]) for image in arrays.pixels] == [255, 255, 8]


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (np.array(LABELS, np.uint8), ["3", "1", "3", "2"]),
        (np.array(LABELS)[:, None], ["3", "1", "3", "2"]),
        (np.array(LABELS, np.float32), ["3", "1", "3", "2"]),
        (np.array([0.5, 1, 2, 3]), ["0.5", "1", "2", "3"]),
        (np.array([" cat", "dog", "é", "cat"]), ["cat", "dog", "é", "cat"]),
        (np.array([b"cat ", b"dog", "é".encode(), b"cat"]), ["cat", "dog", "é", "cat"]),
        (np.array([True, False, True, True]), ["True", "False", "True", "True"]),
    ],
)
def test_labels_as_text(tmp_path: Path, labels: np.ndarray, texts: list[str]) -> None:
    assert read_arrays(write(tmp_path, x=noise(N, H, W), y=labels)).labels == texts


X, Y = noise(N, H, W), np.array(LABELS)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": Y[:3]}, "FILE: 4 images, but 3 labels in 'y'"),
        ({"x": X, "names": Y}, "FILE has no array named 'labels' or 'y' (arrays: x, names)"),
        ({"y": Y, "a": X}, "FILE has no array named 'images' or 'x' (arrays: y, a)"),
        ({}, "FILE has no array named 'images' or 'x' (arrays: none)"),
        ({"x_test": X, "y_test": Y}, "FILE has no array named 'images' or 'x' (arrays: x_test, y_test)"),
        ({"x": X, "y": Y, "y_val": Y}, "FILE has no array named 'x_validation' (arrays: x, y, y_val)"),
        ({"x": X, "y": Y, "x_test": X}, "FILE has no array named 'y_test' (arrays: x, y, x_test)"),
        ({"x": X, "images": X, "y": Y}, "FILE: arrays 'x' and 'images' could both be the train images: keep one"),
        ({"x": X, "y": Y, "y_train": Y}, "FILE: arrays 'y' and 'y_train' could both be the train labels: keep one"),
        (
            {"x": X.reshape(N, -1), "y": Y},
            "FILE: 'x' is 4×35, and images are N×H×W, N×H×W×C or N×C×H×W with C 1 or 3: reshape it",
        ),
        (
            {"x": noise(N, H, W, 4), "y": Y},
            "FILE: 'x' is 4×5×7×4, and images are N×H×W, N×H×W×C or N×C×H×W with C 1 or 3: reshape it",
        ),
        ({"x": X[:0], "y": Y[:0]}, "FILE: 'x' is 0×5×7×1: there are no images in it"),
        ({"x": X[:, :0], "y": Y}, "FILE: 'x' is 4×0×7×1: there are no images in it"),
        ({"x": X.astype(complex), "y": Y}, "FILE: 'x' holds complex128 values, and pixels are numbers"),
        ({"x": X.astype(str), "y": Y}, "FILE: 'x' holds <U3 values, and pixels are numbers"),
        (
            {"x": X, "y": np.eye(4)},
            "FILE: 'y' is 4×4 (float64), and one number or name per image is wanted",
        ),
        ({"x": X, "y": 5}, "FILE: 'y' is one value (int64), and one number or name per image is wanted"),
        (
            {"x": X, "y": Y.astype(complex)},
            "FILE: 'y' is 4 (complex128), and one number or name per image is wanted",
        ),
        ({"x": X, "y": [1, 2, np.nan, 3]}, "FILE: image 2 has no label in 'y'"),
        ({"x": X, "y": ["a", " ", "b", "a"]}, "FILE: image 1 has no label in 'y'"),
        (
            {"x": X, "y": Y, "x_test": X[:, :3], "y_test": Y},
            "FILE: images in 'x' are 5×7×1 and those in 'x_test' 3×7×1: all must be alike",
        ),
        (
            {"x": X - 128.5, "y": Y},
            "FILE: pixels from -128.5 to 126.5, and 0 to 1, 16, 255 or 65535 are understood: scale them",
        ),
        (
            {"x": X * 1000.0, "y": Y},
            "FILE: pixels from 0 to 255000, and 0 to 1, 16, 255 or 65535 are understood: scale them",
        ),
        (
            {"x": np.where(np.arange(N)[:, None, None] == 2, np.nan, X), "y": Y},
            "FILE: image 2 of 'x' holds a value that is no number",
        ),
        (
            {"x": np.array([[1, 2], None], object), "y": Y},
            "FILE is damaged, or no .npz file of numbers: numpy.savez writes one (Object arrays cannot be loaded when "
            "allow_pickle=False)",
        ),
    ],
)
def test_arrays_that_cannot_be(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    assert refused(write(tmp_path, **arrays)) == message


def test_files_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content in (b"", b"text", b"\x93NUMPY", b"PK\x03\x04"):
        path.write_bytes(content)
        assert refused(path) == "FILE is damaged, or no .npz file: numpy.savez writes one"
    path.unlink()
    path.symlink_to("nowhere")
    assert refused(path) == "cannot read FILE: No such file or directory"


def test_damage_is_one_line_whatever_it_hits(tmp_path: Path) -> None:
    whole = write(tmp_path, x=noise(N, 3, 3), y=LABELS).read_bytes()
    chance = np.random.default_rng(0)
    refusals = []
    for _ in range(150):
        damaged = bytearray(whole)
        for place in chance.integers(0, len(damaged), 4):
            damaged[place] = chance.integers(256)
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            found = len(read_arrays(tmp_path / "b.npz").labels)
        except DataError as error:
            refusals.append(str(error))
        else:
            assert found == N
    assert len(refusals) > 50
    assert not any("\n" in message for message in refusals)
    assert all(str(tmp_path / "b.npz") in message for message in refusals)
