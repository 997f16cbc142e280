"""Files → rows and texts."""
