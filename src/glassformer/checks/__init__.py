"""Whether a run computes the same whichever way it is asked. One more check: a name here, a function in `run.py`."""

NAMES = {
    "cached": "cached = uncached",
    "batched": "batched = single",
    "padded": "padded = unpadded",
    "looked-at": "looked at = not looked at",
    "saved": "saved = loaded",
    "resumed": "resumed = uninterrupted",
    "exported": "exported = original",
    "stdin": "file = stdin",
}
"""What of a run can be checked, known without torch."""
