"""Lessons, exercises, grading, and comparison of a student's bricks with the reference."""
