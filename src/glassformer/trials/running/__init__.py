"""The question of a comparison, the jobs that answer it, and the processes that run them."""
