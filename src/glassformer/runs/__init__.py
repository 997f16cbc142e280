"""The folder a run leaves: complete, atomic, and nothing in it is ever executed."""
