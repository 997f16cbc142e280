"""Features: how examples become tensors."""
