"""Inside one run. For now: its curves."""
