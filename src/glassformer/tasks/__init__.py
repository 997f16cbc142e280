"""What is learned: rows → batch, (model, batch) → loss, (model, data) → metrics and a record per example."""
