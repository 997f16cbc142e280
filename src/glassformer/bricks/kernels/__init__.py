"""Kernels of our own for CPU and GPU, where torch makes several passes over memory."""
