"""Tokens of a corpus, packed into files."""
