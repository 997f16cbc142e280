"""The type of JSON objects from files and other programs."""

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object of unknown content. The code that reads a value also checks it."""
