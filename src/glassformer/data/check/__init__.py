"""What deserves attention in data before anything is learned from it."""
