"""Inside one run: what its model looks at, holds and computes."""
