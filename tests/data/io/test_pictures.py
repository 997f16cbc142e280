import os
import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.config.errors import DataError
from glassformer.config.limits import VARIABLE
from glassformer.data.datasets.embedded import DATASETS
from glassformer.data.io.pictures import (
    fit_picture,
    holds_pictures,
    read_picture,
    read_pictures,
    resize_picture,
)
from glassformer.data.io.table import Pictures

H, W = 5, 7


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def save(path: Path, pixels: np.ndarray | Image.Image, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(path, **options)
    return path


def cats_and_dogs(folder: Path, *, colour: bool = False) -> Path:
    shape = (H, W, 3) if colour else (H, W)
    for seed, name in enumerate(["dog/b.png", "dog/a.PNG", "cat/z.bmp", "cat/more/y.png"]):
        save(folder / name, noise(*shape, seed=seed))
    return folder


def refused(path: Path, size: tuple[int, int] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read_pictures(str(path), size)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "DATA")


def test_class_folders(tmp_path: Path) -> None:
    pictures = read_pictures(str(cats_and_dogs(tmp_path)))
    assert pictures.name == str(tmp_path)
    assert pictures.files == ["cat/more/y.png", "cat/z.bmp", "dog/a.PNG", "dog/b.png"]
    assert pictures.labels == ["cat", "cat", "dog", "dog"]
    assert len(pictures) == 4
    assert pictures.part is None
    assert pictures.note == ""
    assert pictures.pixels.dtype == np.uint8
    assert np.array_equal(pictures.pixels, np.stack([noise(H, W, 1, seed=seed) for seed in (3, 2, 1, 0)]))


def test_one_picture_with_colours_makes_all_colour(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    save(tmp_path / "dog/b.png", noise(H, W, 3, seed=9))
    pixels = read_pictures(str(tmp_path)).pixels
    assert np.array_equal(pixels[3], noise(H, W, 3, seed=9))
    for channel in range(3):
        assert np.array_equal(pixels[2, ..., channel], noise(H, W, seed=1))


def test_grey_is_what_has_no_colours(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    save(tmp_path / "dog/b.png", np.repeat(noise(H, W, 1), 3, axis=2))
    assert read_pictures(str(tmp_path)).pixels.shape == (4, H, W, 1)
    assert np.array_equal(read_pictures(str(tmp_path)).pixels[3], noise(H, W, 1))
    for channel in range(3):
        almost = np.full((H, W, 3), 100, np.uint8)
        almost[4, 6, channel] = 101
        assert np.array_equal(read_picture(save(tmp_path / "almost.png", almost)), almost)


def test_hidden_files_and_what_is_left_out(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    (tmp_path / "dog/.hidden.png").write_text("x")
    (tmp_path / ".cache").mkdir()
    save(tmp_path / ".cache/a.png", noise(H, W))
    assert read_pictures(str(tmp_path)).note == ""
    (tmp_path / "cat/notes.txt").write_text("x")
    assert read_pictures(str(tmp_path)).note == "left out: 1 file that is no picture in a class folder (cat/notes.txt)"
    save(tmp_path / "logo.png", noise(H, W))
    (tmp_path / "dog/a.txt").write_text("x")
    (tmp_path / "dog/b.txt").write_text("x")
    (tmp_path / "bird").mkdir()
    pictures = read_pictures(str(tmp_path))
    assert pictures.note == (
        "no pictures in class folder bird; "
        "left out: 4 files that are no pictures in a class folder (cat/notes.txt, dog/a.txt, dog/b.txt, …)"
    )
    assert pictures.labels == ["cat", "cat", "dog", "dog"]


@pytest.mark.parametrize("held_out", ["val", "valid", "Validation"])
def test_parts(tmp_path: Path, held_out: str) -> None:
    for seed, name in enumerate(["test/a/1.png", "Train/b/1.png", "Train/a/1.png", f"{held_out}/b/1.png"]):
        save(tmp_path / name, noise(H, W, seed=seed))
    (tmp_path / "docs").mkdir()
    pictures = read_pictures(str(tmp_path))
    assert holds_pictures(str(tmp_path))
    assert pictures.files == ["Train/a/1.png", "Train/b/1.png", f"{held_out}/b/1.png", "test/a/1.png"]
    assert pictures.part == ["train", "train", "validation", "test"]
    assert pictures.labels == ["a", "b", "b", "a"]
    assert np.array_equal(pictures.pixels, np.stack([noise(H, W, 1, seed=seed) for seed in (2, 1, 3, 0)]))


def test_a_part_alone_is_the_whole(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path / "train")
    pictures = read_pictures(str(tmp_path))
    assert pictures.part is None
    assert pictures.labels == ["cat", "cat", "dog", "dog"]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for name in ("bus", "car", "train"):
        save(tmp_path / name / "1.png", noise(H, W))
    assert read_pictures(str(tmp_path)).labels == ["bus", "car", "train"]
    assert read_pictures(str(tmp_path)).part is None


FOLDERS = (
    "there must be either class folders, or train, and at most one validation and one test folder, with class folders "
    "in them"
)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["train/a/1.png", "train/b/1.png", "more/a/1.png"],
            f"DATA holds the folders train, more: {FOLDERS}",
        ),
        (
            ["train/a/1.png", "train/b/1.png", "val/a/1.png", "valid/a/1.png"],
            f"DATA holds the folders train, val, valid: {FOLDERS}",
        ),
        (["test/a/1.png", "val/a/1.png"], f"DATA holds the folders test, val: {FOLDERS}"),
        (
            ["test/1.png", "train/a/1.png"],
            "DATA/test holds pictures, but no class folders: put those of each class into a folder named after it",
        ),
        (
            ["test/1.png", "train/1.png"],
            "DATA/test holds pictures, but no class folders: put those of each class into a folder named after it",
        ),
        (
            ["1.png", "2.png"],
            "DATA holds pictures, but no class folders: put those of each class into a folder named after it",
        ),
        (["a/1.png"], "all pictures of DATA are of one class, 'a': nothing to tell apart"),
        (
            ["pets/a/1.png", "pets/b/1.png"],
            "all pictures of DATA are of one class, 'pets': nothing to tell apart; did you mean DATA/pets?",
        ),
        (
            [],
            "no pictures in DATA: a folder for each class is wanted, with files that end in .png, .jpg, .jpeg, .bmp, "
            ".gif, .webp, .tif, .tiff",
        ),
    ],
)
def test_folders_that_cannot_be(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        save(tmp_path / name, noise(H, W))
    assert refused(tmp_path) == message


def test_sizes_that_differ(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    save(tmp_path / "dog/b.png", noise(11, 13))
    assert refused(tmp_path) == (
        "DATA: cat/more/y.png is 5×7 pixels (height × width) and dog/b.png is 11×13: "
        "--data.image_size 5x7 resizes all to one size"
    )
    save(tmp_path / "dog/b.png", noise(W, H))
    assert "is 5×7 pixels (height × width) and dog/b.png is 7×5" in refused(tmp_path)


def test_resized_on_reading(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    save(tmp_path / "dog/b.png", noise(11, 13, 3))
    pixels = read_pictures(str(tmp_path), (4, 6)).pixels
    assert pixels.shape == (4, 4, 6, 3)
    expected = Image.fromarray(noise(11, 13, 3)).resize((6, 4), Image.Resampling.BILINEAR)
    assert np.array_equal(pixels[3], np.array(expected))
    grey = Image.fromarray(noise(H, W, seed=1)).resize((6, 4), Image.Resampling.BILINEAR)
    assert np.array_equal(pixels[2, ..., 1], np.array(grey))


def test_resized_keeps_what_fits() -> None:
    picture = noise(H, W, 1)
    assert resize_picture(picture, (H, W)) is picture
    assert resize_picture(picture, (3, 2)).shape == (3, 2, 1)
    assert resize_picture(np.full((H, W, 3), 77, np.uint8), (3, 2)).tolist() == [[[77] * 3] * 2] * 3


def test_pictures_that_cannot_be_read(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path)
    broken = tmp_path / "dog/b.png"
    broken.write_bytes(b"")
    assert refused(tmp_path) == "DATA/dog/b.png is damaged, or no picture: save it again, or take it out"
    broken.write_text("hello")
    assert refused(tmp_path) == "DATA/dog/b.png is damaged, or no picture: save it again, or take it out"
    whole = save(tmp_path / "dog/b.png", noise(50, 50)).read_bytes()
    broken.write_bytes(whole[:-500])
    damaged = r"DATA/dog/b\.png is damaged, or no picture: save it again, or take it out \(.*truncated.*\)"
    assert re.fullmatch(damaged, refused(tmp_path))
    broken.unlink()
    broken.symlink_to("nowhere")
    assert refused(tmp_path) == "cannot read DATA/dog/b.png: No such file or directory"


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "gif", "webp", "tif"])
def test_damage_is_one_line_whatever_it_hits(tmp_path: Path, kind: str) -> None:
    whole = save(tmp_path / f"a.{kind}", noise(16, 16, 3)).read_bytes()
    chance = np.random.default_rng(0)
    refusals = []
    for _ in range(60):
        damaged = bytearray(whole[: chance.integers(1, len(whole) + 1)])
        for place in chance.integers(0, len(damaged), 5):
            damaged[place] = chance.integers(256)
        (tmp_path / f"b.{kind}").write_bytes(damaged)
        try:
            found = fit_picture(read_picture(tmp_path / f"b.{kind}", (16, 16)), (16, 16), 3)
        except DataError as error:
            refusals.append(str(error))
        else:
            assert found.shape == (16, 16, 3)
    assert refusals
    assert not any("\n" in message for message in refusals)
    assert all(str(tmp_path / f"b.{kind}") in message for message in refusals)


def test_what_would_unpack_to_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3)
    monkeypatch.setenv(VARIABLE, f"pixels={H * W}")
    assert read_picture(save(tmp_path / "a.png", noise(H, W))).shape == (H, W, 1)  # whatever Pillow thinks of it
    assert Image.MAX_IMAGE_PIXELS == 3
    path = save(tmp_path / "b.png", noise(H, W * 2))
    with pytest.raises(DataError, match=r"b\.png has 70 pixels, more than the limit of 35: --limit pixels=70 raises"):
        read_picture(path)


def test_more_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    cats_and_dogs(tmp_path)
    monkeypatch.setattr(np, "empty", full)
    assert refused(tmp_path) == "DATA: so many pixels do not fit into memory: lower --data.image_size"


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_right_way_up(tmp_path: Path, turn: int) -> None:
    upright = noise(H, W, 3)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1],
        7: upright.transpose(1, 0, 2)[::-1, ::-1],
        8: upright.transpose(1, 0, 2)[:, ::-1],
    }[turn]
    exif = Image.Exif()
    exif[0x0112] = turn
    path = save(tmp_path / "a.png", np.ascontiguousarray(stored), exif=exif)
    assert np.array_equal(read_picture(path), upright)


def test_jpeg_and_webp(tmp_path: Path) -> None:
    smooth = np.add.outer(np.arange(16) * 8, np.arange(24) * 4).astype(np.uint8)
    for name in ("a.jpg", "a.jpeg"):
        path = save(tmp_path / name, smooth, quality=95)
        assert read_picture(path).shape == (16, 24, 1)
        assert np.abs(read_picture(path)[..., 0].astype(int) - smooth).max() < 8
    path = save(tmp_path / "a.webp", noise(H, W, 3), lossless=True)
    assert np.array_equal(read_picture(path), noise(H, W, 3))


def test_alpha_is_put_on_white(tmp_path: Path) -> None:
    rgba = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 100, 200, 51]]], np.uint8)
    assert read_picture(save(tmp_path / "a.png", rgba)).tolist() == [[[10, 20, 30], [255] * 3, [204, 224, 244]]]
    la = Image.fromarray(np.array([[[10, 255], [10, 0], [0, 51]]], np.uint8), "LA")
    assert read_picture(save(tmp_path / "b.png", la)).tolist() == [[[10], [255], [204]]]


def test_palettes(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8)).convert("P")
    image.putpalette([200, 10, 20, 30, 40, 50, 60, 70, 80])
    colours = [[200, 10, 20], [30, 40, 50], [60, 70, 80]]
    assert read_picture(save(tmp_path / "a.png", image)).tolist() == [colours]
    assert read_picture(save(tmp_path / "a.gif", image)).tolist() == [colours]
    clear = [[200, 10, 20], [255, 255, 255], [60, 70, 80]]
    assert read_picture(save(tmp_path / "b.png", image, transparency=1)).tolist() == [clear]
    assert read_picture(save(tmp_path / "c.png", image, transparency=b"\xff\x00\xff")).tolist() == [clear]
    image.putpalette([0, 0, 0, 9, 9, 9, 255, 255, 255])
    assert read_picture(save(tmp_path / "d.png", image)).tolist() == [[[0], [9], [255]]]


def test_a_colour_that_stands_for_nothing(tmp_path: Path) -> None:
    """Transparency without an alpha channel: one value of the pixels means it."""
    path = save(tmp_path / "a.png", np.array([[3, 7]], np.uint8), transparency=7)
    assert read_picture(path).tolist() == [[[3], [255]]]


def test_black_and_white_and_inks(tmp_path: Path) -> None:
    bits = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert read_picture(save(tmp_path / "a.png", bits)).tolist() == [[[0], [255]]]
    inks = Image.new("CMYK", (2, 1), (255, 0, 0, 0))
    assert read_picture(save(tmp_path / "a.tif", inks)).tolist() == [[[0, 255, 255]] * 2]


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_16_bits(tmp_path: Path, ending: str) -> None:
    deep = np.array([[0, 257, 65535, 200 * 257, 128]], np.uint16)
    assert read_picture(save(tmp_path / f"a.{ending}", deep)).tolist() == [[[0], [1], [255], [200], [0]]]


def test_16_bits_and_colours(tmp_path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    pixels = b"\0" + struct.pack(">6H", 0, 257 * 100, 65535, 257, 514, 771)
    path = tmp_path / "a.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    )
    assert read_picture(path).tolist() == [[[0, 100, 255], [1, 2, 3]]]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[0.0, 0.5]], np.float32), "0 to 0.5"),
        (np.array([[-1, 5]], np.int32), "-1 to 5"),
        (np.array([[0, 70000]], np.int32), "0 to 70000"),
    ],
)
def test_other_numbers_of_bits(tmp_path: Path, values: np.ndarray, said: str) -> None:
    path = save(tmp_path / "a.tif", values)
    with pytest.raises(DataError) as caught:
        read_picture(path)
    assert str(caught.value) == f"{path}: pixels from {said}: save it with 8 or 16 bits"


def test_32_bits_within_16(tmp_path: Path) -> None:
    assert read_picture(save(tmp_path / "a.tif", np.array([[0, 514]], np.int32))).tolist() == [[[0], [2]]]


def test_an_animation_is_its_first_picture(tmp_path: Path) -> None:
    first, second = Image.fromarray(noise(H, W)), Image.fromarray(noise(H, W, seed=1))
    path = save(tmp_path / "a.gif", first, save_all=True, append_images=[second])
    assert np.array_equal(read_picture(path), noise(H, W, 1))


def test_one_picture_with_the_channels_and_size_wanted(tmp_path: Path) -> None:
    grey, colour = noise(H, W, 1), noise(H, W, 3)
    assert np.array_equal(fit_picture(grey, (H, W), 3), np.repeat(grey, 3, axis=2))
    assert np.array_equal(fit_picture(colour, (H, W), 3), colour)
    light = colour @ [0.299, 0.587, 0.114]
    assert fit_picture(colour, (H, W), 1).shape == (H, W, 1)
    assert np.abs(fit_picture(colour, (H, W), 1)[..., 0] - light).max() < 1
    assert fit_picture(colour, (11, 3), 1).shape == (11, 3, 1)
    file = save(tmp_path / "b.png", colour)
    assert np.array_equal(read_picture(file, (11, 3)), resize_picture(colour, (11, 3)))
    assert np.array_equal(read_picture(file, (11, 3)), fit_picture(colour, (11, 3), 3))
    assert read_picture(file).flags.writeable
    assert read_picture(file, (2, 3)).flags.writeable


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a/1.png", "b/1.JPG"], True),
        (["a/1.tif"], True),
        (["a/1.png", "a/2.webp", "readme.txt", "b/notes.md"], True),
        (["a/1.png", "readme.txt", "b/notes.md"], False),
        (["1.png", "2.gif"], True),
        (["1.png", "2.gif", "a.txt"], False),
        (["train/a/1.bmp", "test/a/1.jpeg"], True),
        (["a.txt"], False),
        ([".git/1.png", "a.txt"], False),
        (["glassformer.json", "a/1.png"], False),
        ([], False),
    ],
)
def test_what_holds_pictures(tmp_path: Path, files: list[str], expected: bool) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("not decoded")
    assert holds_pictures(str(tmp_path)) is expected


def test_what_else_holds_pictures(tmp_path: Path) -> None:
    for name, expected in {"a.npz": True, "a.NPZ": True, "a.npy": False, "a.csv": False, "a.png": False}.items():
        (tmp_path / name).write_text("not decoded")
        assert holds_pictures(str(tmp_path / name)) is expected
    assert [name for name in DATASETS if holds_pictures(name)] == ["digits", "mnist5k"]
    with pytest.raises(DataError, match="no file 'nowhere'"):
        holds_pictures("nowhere")


def test_asking_does_not_load_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cats_and_dogs(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert holds_pictures(str(tmp_path))


def test_embedded_pictures() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn brings the digits")
    pictures = read_pictures("digits")
    assert pictures.pixels.shape == (1797, 8, 8, 1)
    assert pictures.files[17] == "image 17"
    assert len(pictures.files) == 1797
    assert sorted(set(pictures.labels)) == list("0123456789")
    smaller = read_pictures("digits", (4, 6)).pixels
    assert smaller.shape == (1797, 4, 6, 1)
    assert np.array_equal(smaller[5], resize_picture(pictures.pixels[5], (4, 6)))


def test_what_holds_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert refused(tmp_path / "a.txt") == (
        "DATA holds no labelled pictures: pass a folder of class folders, or a .npz file"
    )
    assert refused(Path("opinions")) == "data set 'DATA' holds no pictures"


def test_folders_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cats_and_dogs(tmp_path)

    def closed(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "cat"))

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", closed)
        with pytest.raises(DataError, match=r"cannot read .*cat: Permission denied"):
            holds_pictures(str(tmp_path))
    monkeypatch.setattr(Path, "iterdir", closed)
    assert refused(tmp_path) == "cannot read DATA: Permission denied"


def test_npz_files_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=noise(4, H, W, 3), labels=["a", "b", "a", "b"])
    pictures = read_pictures(str(tmp_path / "a.npz"), (3, 2))
    assert isinstance(pictures, Pictures)
    assert pictures.pixels.shape == (4, 3, 2, 3)
    assert np.array_equal(pictures.pixels[2], resize_picture(noise(4, H, W, 3)[2], (3, 2)))
    assert pictures.labels == ["a", "b", "a", "b"]
    np.savez(
        tmp_path / "b.npz", x_train=noise(2, H, W) // 255, y_train=[0, 1], x_test=noise(1, H, W) // 255, y_test=[1]
    )
    pictures = read_pictures(str(tmp_path / "b.npz"))
    assert pictures.part == ["train", "train", "test"]
    assert pictures.files == ["train image 0", "train image 1", "test image 0"]
    assert pictures.note == "pixels from 0 to 1 taken as 0–1 and scaled to 0–255"
    np.savez(tmp_path / "c.npz", x=noise(2, H, W), y=[5, 5])
    assert refused(tmp_path / "c.npz") == "all pictures of DATA are of one class, '5': nothing to tell apart"
