"""Data sets by name: embedded ones, and those of the Hugging Face hub."""
