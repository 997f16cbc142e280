"""Input and output in a terminal: results, progress, live tables, and texts from arguments and stdin."""
