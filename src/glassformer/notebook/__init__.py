"""Notebook output: progress bars that update in place, and results as small tables.

IPython is used only if it is running.
"""
