"""Comparisons of models, searches for settings, and cross-validation, each with many training runs."""
