"""The report of a run, and the papers that a training leaves."""
