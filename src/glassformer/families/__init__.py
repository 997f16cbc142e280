"""Families of tasks. A family defines everything that is specific to one kind of task."""
