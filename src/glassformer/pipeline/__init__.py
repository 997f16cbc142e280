"""A training run, from settings to a finished folder: resolve, prepare, build, fit, report."""
