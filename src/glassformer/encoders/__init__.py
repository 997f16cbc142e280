"""Stacks of bricks that turn T×d into T×d. All have one signature, so that any of them serves under any head."""
