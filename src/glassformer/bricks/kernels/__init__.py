"""What a CPU and a GPU compute by kernels of our own, where torch takes several passes over memory."""
