"""What is asked, the cells that answer it, and the processes that train them."""
