"""The training loop. It emits events, draws nothing, and does not depend on any architecture or task."""
