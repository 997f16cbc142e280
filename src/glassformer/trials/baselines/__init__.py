"""What a model must beat: floors, which learn nothing or only count, and references, another library's models."""
