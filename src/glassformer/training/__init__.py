"""The one loop. It emits events and draws nothing; it knows no architecture and no task by name."""
