"""A run to play with, whose heads matter from the start, and how a page asks for it."""

from pathlib import Path
from typing import Any

import httpx

import glassformer as gf

TEXT, OTHER = "abcd>ab", "dcba>dc"


def train_player(folder: Path, name: str = "player", **settings: Any) -> str:
    """A writer of letters; its weights start as xavier's, so that no head begins as nothing."""
    trained = gf.train(
        "copy:rows=200",
        out=folder / name,
        **{
            "model": "transformer",
            "model.width": 16,
            "model.layers": 2,
            "model.heads": 2,
            "model.context": 32,
            "model.initialisation": "xavier",
            "tokenizer.kind": "char",
            "training.samples": False,
            "steps": 4,
            "keep_checkpoints": True,
            **settings,
        },
    )
    return str(trained.run)


def ask(url: str, route: str, **body: Any) -> tuple[int, dict[str, Any]]:
    """A POST, or without a body a GET."""
    response = httpx.post(url + route, json=body, timeout=300) if body else httpx.get(url + route, timeout=300)
    return response.status_code, response.json()


def play(url: str, example: Any = TEXT, **more: Any) -> dict[str, Any]:
    status, answer = ask(url, "/api/play", example=example, **more)
    assert status == 200, answer
    return answer
