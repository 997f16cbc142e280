"""Decoding: from scores to tokens, one at a time, with cached states."""
