"""The search for settings: search spaces, storage, trials, workers and results."""
