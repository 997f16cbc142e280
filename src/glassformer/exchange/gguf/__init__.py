"""GGUF files, in."""
