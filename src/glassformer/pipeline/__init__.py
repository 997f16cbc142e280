"""A training from settings to a finished run: resolve, prepare, build, fit, report."""
