"""What is asked, the jobs that answer it, and the processes that train them."""
