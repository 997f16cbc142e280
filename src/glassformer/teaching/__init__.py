"""The course: lessons, exercises and their grading, and bricks of a student's own held against ours."""
