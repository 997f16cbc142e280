"""Token ids of a corpus in files."""
