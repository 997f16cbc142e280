"""Panels form a view, and a view becomes a page or a picture. This package knows no model."""
