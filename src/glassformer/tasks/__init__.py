"""Tasks: what a batch means, its loss, and the metrics of an evaluation."""
