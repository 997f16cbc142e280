"""Checks of data before a model learns from them."""
