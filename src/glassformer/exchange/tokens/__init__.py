"""Tokens of other houses."""
