"""Exercises of the lessons, one module per lesson: `EXERCISES`, in the order of the lesson."""
