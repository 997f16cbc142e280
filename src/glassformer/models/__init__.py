"""Whole models: embed → encoder → pool → head."""
