"""The views of a run, one module per view, and their registry."""
