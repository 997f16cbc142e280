"""Families of tasks: everything in which one kind of task differs from another."""
