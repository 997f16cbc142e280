"""What is learned from, and what is held out."""
