"""What grader and submission say to each other, and what a process closes to itself."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.teaching.exercise import difference
from glassformer.teaching.wire import DTYPES, HEAD, MOST_JSON, Malformed, Unsendable, pack, sizes, unpack


def there_and_back(value: Any) -> Any:
    message = pack(value)
    text, blob = sizes(message[: HEAD.size])
    assert len(message) == HEAD.size + text + blob
    return unpack(message[HEAD.size : HEAD.size + text], message[HEAD.size + text :])


def test_what_is_sent_arrives() -> None:
    plain = {"a": [1, 2.5, True, None, "ü\ud800"], (1, "b"): (math.inf, -math.inf, []), 3: {}}
    assert there_and_back(plain) == plain
    assert math.isnan(there_and_back(math.nan))
    for dtype in DTYPES.values():
        for shape in ((3, 5), (), (0, 7)):
            tensor = torch.randn(shape).mul(3).to(dtype)
            arrived = there_and_back([tensor])[0]
            assert arrived.dtype == dtype
            assert torch.equal(arrived, tensor)
    strided = torch.arange(12).reshape(3, 4).t()
    assert torch.equal(there_and_back(strided), strided)
    assert there_and_back(np.float64(2.5)) == 2.5
    assert difference(torch.ones(2), there_and_back(np.ones(2, dtype=np.float32)), 0) is None
    weight = torch.nn.Parameter(torch.ones(3))
    assert type(there_and_back(weight * 2)) is torch.Tensor


MANY = '{{"d": [{}]}}'.format(",".join(f"[{k * (2**61 - 1)}, 0]" for k in range(1, 1100)))
"""Keys with one hash; the last are above 2**63."""
NUMBERS = '{{"d": [{}]}}'.format(",".join(f"[{k}, 0]" for k in range(1100)))


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 2**70, torch.zeros(2, dtype=torch.complex64), [[[object()]]], dict.fromkeys(range(1100)),
     {tuple(range(17)): 1}, torch.empty(10**9, 0), [torch.empty(0)] * 10_001],
)  # fmt: skip
def test_what_cannot_be_sent(value: Any) -> None:
    with pytest.raises(Unsendable):
        pack(value)


@pytest.mark.parametrize(
    ("text", "blob"),
    [
        ("", b""),
        ("[1]", b""),
        ('{"q": []}', b""),
        ('{"l": [], "t": []}', b""),
        ('{"x": ["float32", [2]]}', b"1234"),
        ('{"x": ["float32", [1]]}', b"12345"),
        ('{"x": ["float32", [-1]]}', b""),
        ('{"x": ["float32", [4611686018427387904, 4, 0]]}', b"x"),
        ('{"x": ["object", [1]]}', b"1234"),
        ('{"x": ["float32", ["1"]]}', b"1234"),
        ('{"d": [[{"l": []}, 1]]}', b""),
        ('{"l": [' * 30 + "]}" * 30, b""),
        ('{"l": [' * 10**5, b""),
        ("9" * 5000, b""),
        (str(2**63), b""),
        (MANY, b""),
        (NUMBERS, b""),
        ('{{"d": [[{{"t": [{}]}}, 1]]}}'.format(",".join("0" * 17)), b""),
        ('{"d": [[{"t": [{"t": [1]}]}, 1]]}', b""),
        ('{"x": ["float32", [1000000000, 0]]}', b""),
        ('{"x": ["float32", [1000, 1000, 0, 1000]]}', b""),
        ('{{"l": [{}]}}'.format(",".join(['{"x": ["float32", [0]]}'] * 10_001)), b""),
    ],
)
def test_what_is_not_well_formed_is_refused(text: str, blob: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(text.encode(), blob)
    with pytest.raises(Malformed):
        sizes(HEAD.pack(MOST_JSON + 1, 0))


CLOSES = """
import json, os, sys
from glassformer.teaching.isolation import close_files

folder, hidden, other = sys.argv[1:]
open(folder + "/../before", "w").close()
readable = [os.path.dirname(os.path.dirname(json.__file__)), os.path.dirname(other)]
said = {"done": close_files(folder, readable, [hidden])}
for name, path, mode in (
    ("reads hidden", hidden + "/x", "r"), ("reads other", other, "r"), ("writes other", other, "a"),
    ("makes", other + "2", "w"), ("writes own", folder + "/x", "w"), ("reads python", json.__file__, "r"),
):
    try:
        open(path, mode).close()
        said[name] = True
    except PermissionError:
        said[name] = False
print(json.dumps(said))
"""


def test_files_are_closed_without_rights(tmp_path: Path) -> None:
    for name in ("own", "hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "hidden" / "x").write_text("secret")
    (tmp_path / "other").write_text("other")
    places = [str(tmp_path / name) for name in ("own", "hidden", "other")]
    told = subprocess.run([sys.executable, "-c", CLOSES, *places], capture_output=True, text=True, check=True).stdout
    said = json.loads(told)
    if not said.pop("done"):
        pytest.skip("this system has no Landlock")
    assert said == {"reads hidden": False, "reads other": True, "writes other": False, "makes": False,
                    "writes own": True, "reads python": True}  # fmt: skip
