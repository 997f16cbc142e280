"""Reading files as rows and texts."""
