"""Panels → a view → a page or a picture. Nothing here knows a model."""
