"""The search for settings: what is searched, where it is kept, one trial, many of them, and what came of it."""
